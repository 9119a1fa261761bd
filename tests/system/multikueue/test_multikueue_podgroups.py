"""Pods that name a PodGroup run in another cluster with it, whole."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.system.multikueue.federation import Federation, federated, federation
from tests.system.multikueue.test_multikueue_kinds import pods

from muster.api.batch import JOB
from muster.api.config import EMBEDDED
from muster.api.core import EVENT, POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue.names import POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT, QUEUE_NAME_LABEL
from muster.api.ours.simulated import RUN_TIME
from muster.api.podgroups import coscheduling, kep, volcano
from muster.api.podgroups.names import GROUP_NAME_ANNOTATION, POD_GROUP_LABEL
from muster.jobs.podgroup.record import NATIVE
from muster.runtime.clock import run_virtual

pytestmark = pytest.mark.slow

ALL = ["p-0", "p-1", "p-2"]
BY_ANNOTATION = {"annotations": {GROUP_NAME_ANNOTATION: "g"}}
GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
NAMES_IT = {"metadata": {"annotations": {RUN_TIME: "1000000s", GROUP_NAME_ANNOTATION: "g"}}}
NATIVELY = msgspec.structs.replace(
    EMBEDDED, muster=msgspec.structs.replace(EMBEDDED.muster, apis=(NATIVE.api_version,))
)


async def podgroup(f: Federation, kind: Kind[Any] = kep.POD_GROUP, **spec: Any) -> None:
    document = {"metadata": {"name": "g"}, "spec": spec or {"minMembers": 3}}
    await f.here.client.create(kind, msgspec.convert(document, kind.type), "default")


async def group(
    f: Federation, says: dict[str, Any] = BY_ANNOTATION, names: Sequence[str] = ALL, *, queued: bool = True
) -> None:
    """Pods that say so of their PodGroup. queued: and that they queue together."""
    together, count = ({POD_GROUP_NAME_LABEL: "q"}, {POD_GROUP_TOTAL_COUNT: "3"}) if queued else ({}, {})
    for name in names:
        annotations = {RUN_TIME: "1000000s"} | count | says.get("annotations", {})
        labels = {QUEUE_NAME_LABEL: "cq"} | together | says.get("labels", {})
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec = {"containers": [container], "restartPolicy": "Never"} | says.get("spec", {})
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        await f.here.client.create(POD, msgspec.convert({"metadata": metadata, "spec": spec}, Pod), "default")
    await f.settle(30)


async def groups(f: Federation, kind: Kind[Any] = kep.POD_GROUP) -> list[str]:
    """The workers that have the PodGroup."""
    return [name for name, q in f.workers.items() if await q.client.find(kind, "g", "default") is not None]


async def told(f: Federation) -> set[str]:
    """What events say here."""
    return {event.message for event in (await f.here.client.list(EVENT, "default")).items}


async def delete(f: Federation) -> None:
    for name in ALL:
        await f.here.client.delete(POD, name, "default")
    await f.settle(60)


@pytest.mark.parametrize(
    ("kind", "spec", "says"),
    [
        (kep.POD_GROUP, {"minMembers": 3}, BY_ANNOTATION),
        (volcano.POD_GROUP, {"minMember": 3}, BY_ANNOTATION),
        (coscheduling.POD_GROUP, {"minMember": 3}, {"labels": {POD_GROUP_LABEL: "g"}}),
    ],
    ids=("KEP-34", "Volcano", "coscheduling"),
)
def test_a_podgroup_is_there_before_its_pods_and_goes_after_them(
    kind: Kind[Any], spec: dict[str, Any], says: dict[str, Any]
) -> None:
    async def story() -> None:
        async with federation(EMBEDDED, ("a", "b")) as f:
            await f.queues()
            await podgroup(f, kind, **spec)
            await group(f, says)
            (home,) = await pods(f)
            assert await pods(f) == {home: ALL}
            assert await groups(f, kind) == [home]
            await f.workers[home].evict("p-0")
            await f.settle(240)
            assert list((await pods(f)).values()) == [ALL], "it runs whole again"
            assert await groups(f, kind) == list(await pods(f))
            await delete(f)
            assert (await pods(f), await groups(f, kind)) == ({}, [])
            assert await f.here.client.get(kind, "g", "default")

    run_virtual(story())


@federated()
async def test_the_podgroup_of_a_jobs_template_goes_with_it_and_stays_while_a_job_needs_it(
    f: Federation,
) -> None:
    await f.queues(a=4, b=0)
    await podgroup(f, minMembers=2)
    for name in ("j", "k"):
        await f.here.job(name, 2, template=NAMES_IT)
    await f.settle(30)
    assert (await f.where("j"), await f.where("k")) == ({"a": 2}, {"a": 2})
    for name, left in (("j", ["a"]), ("k", [])):
        await f.here.client.delete(JOB, name, "default")
        await f.settle(60)
        assert (await f.where(name), await groups(f)) == ({}, left)


@federated()
async def test_pods_wait_here_for_a_podgroup_that_is_not_made_yet(f: Federation) -> None:
    await f.queues()
    await group(f)
    assert (await pods(f), await f.clones("q")) == ({}, [])
    assert any('the manager has no PodGroup "g", which the pods name' in said for said in await told(f))
    await podgroup(f)
    await f.settle(60)
    assert list((await pods(f)).values()) == [ALL]


@federated()
async def test_what_becomes_of_pods_is_shown_though_another_waits_for_their_podgroup(f: Federation) -> None:
    await f.queues()
    await podgroup(f)
    await group(f)
    (home,) = await pods(f)
    there = f.workers[home].client
    await f.here.client.delete(kep.POD_GROUP, "g", "default")
    await f.here.client.delete(POD, "p-2", "default")
    await group(f, names=["p-3"])
    assert await pods(f) == {home: ALL[:2]}
    await there.patch(POD, "p-0", {"status": {"message": "seen"}}, "default", subresource="status")
    await f.settle(60)
    assert (await f.here.client.get(POD, "p-0", "default")).status.message == "seen"
    await podgroup(f)
    await f.settle(120)
    assert await pods(f) == {home: [*ALL[:2], "p-3"]}


@federated()
async def test_a_podgroup_of_another_maker_keeps_the_pods_out_of_a_cluster(f: Federation) -> None:
    await f.queues()
    theirs = msgspec.convert({"metadata": {"name": "g"}, "spec": {"minMembers": 1}}, kep.PodGroup)
    before = await f.workers["a"].client.create(kep.POD_GROUP, theirs, "default")
    await podgroup(f)
    await group(f)
    await f.settle(60)
    assert await pods(f) == {"b": ALL}
    await delete(f)
    now = await f.workers["a"].client.get(kep.POD_GROUP, "g", "default")
    assert (now.metadata.uid, now.metadata.owner_references) == (before.metadata.uid, ())


@federated()
async def test_pods_of_a_podgroup_that_queue_one_by_one_go_nowhere(f: Federation) -> None:
    await f.queues()
    await podgroup(f)
    await group(f, queued=False)
    said = f'A pod of a PodGroup goes nowhere without the others: label all of them "{POD_GROUP_NAME_LABEL}"'
    assert said in await told(f)
    assert [(await f.here.workload(name)).spec.active for name in ALL] == [False] * 3
    assert await pods(f) == {}


@federated(configuration=NATIVELY)
async def test_where_a_worker_serves_no_such_kind_what_pods_say_of_it_means_nothing(f: Federation) -> None:
    await f.queues()
    await podgroup(f, NATIVE, **GANG)
    await group(f, {"spec": {"schedulingGroup": {"podGroupName": "g"}}})
    assert list((await pods(f)).values()) == [ALL]


def test_whichever_write_its_manager_is_killed_after_the_pods_run_whole_with_their_podgroup(long: bool) -> None:
    async def story(writes: int) -> bool:
        async with federation(EMBEDDED, ("a", "b"), writes) as f:
            await f.queues()
            await podgroup(f)
            await group(f)
            killed = f.dispatch.budget.left == 0
            await f.restart()
            await f.settle(60)
            found = await pods(f)
            assert (list(found.values()), await groups(f)) == ([ALL], list(found)), f"after {writes} writes"
            await delete(f)
            assert (await pods(f), await groups(f)) == ({}, []), f"after {writes} writes"
            return killed

    writes = 8
    while run_virtual(story(writes)):
        writes += 1 if long else 6
    assert writes >= 14
