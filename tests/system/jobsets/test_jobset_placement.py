"""Exclusive placement: each Job of a JobSet has a place for itself, and all its pods are in it."""

from collections import defaultdict

import pytest
from tests.system.jobsets.jobset_cluster import Cluster, role
from tests.system.plane import running

from muster.api.batch import COMPLETION_INDEX
from muster.api.core import EVENT, NAMESPACE, NODE, POD
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.meta import ObjectMeta
from muster.runtime.clock import run_virtual

RACK = "example.com/rack"
BY_AFFINITY = {"annotations": {names.EXCLUSIVE_TOPOLOGY: RACK}}
BY_SELECTOR = {"annotations": {names.EXCLUSIVE_TOPOLOGY: RACK, names.NODE_SELECTOR_STRATEGY: "true"}}


class Racks(Cluster):
    """Words about nodes in racks."""

    async def rack(self, name, nodes=2, cpu="4", **labels):
        for number in range(nodes):
            node = f"{name}-{number}"
            await self.node(node, cpu=cpu)
            await self.client.patch(NODE, node, {"metadata": {"labels": {RACK: name} | labels}})

    async def racks(self):
        """Of each Job, the racks of its pods; "" for pods without a node."""
        found = defaultdict(list)
        for pod in await self.pods():
            found[pod.metadata.labels["batch.kubernetes.io/job-name"]].append(pod.spec.node_name.rpartition("-")[0])
        return {job: sorted(racks) for job, racks in sorted(found.items())}


def racks(test):
    """Run a test of racks in virtual time, with the whole engine."""

    def run():
        async def body():
            async with running() as plane:
                await test(Racks(plane))

        run_virtual(body())

    return run


def asking(cpu):
    container = {"name": "main", "image": "none", "command": ["true"], "resources": {"requests": {"cpu": cpu}}}
    return {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}


def uneven(placed):
    """The Jobs whose pods are not all in one place."""
    return {job: found for job, found in placed.items() if len(set(found)) != 1 or found[0] == ""}


@racks
async def test_each_job_has_a_rack_of_its_own(world):
    for name in ("r0", "r1", "r2"):
        await world.rack(name)
    await world.jobset(role(replicas=3, pods=3), meta=BY_AFFINITY)
    placed = await world.racks()
    assert uneven(placed) == {}
    assert sorted(found[0] for found in placed.values()) == ["r0", "r1", "r2"]
    told = [event for event in (await world.client.list(EVENT, "default")).items if event.type == "Warning"]
    assert told == [], "no pod was refused on the way"


@racks
async def test_a_rack_that_has_not_room_for_all_is_not_begun(world):
    await world.rack("small", nodes=1, cpu="2")
    await world.rack("large")
    await world.jobset(role(replicas=1, pods=4, spec=asking("2")), meta=BY_AFFINITY)
    assert await world.racks() == {"js-workers-0": ["large"] * 4}


@racks
async def test_one_job_more_than_racks_waits_until_another_has_ended(world):
    await world.rack("r0")
    await world.rack("r1")
    await world.jobset(role(replicas=3, pods=2), meta=BY_AFFINITY)
    placed = await world.racks()
    (waiting,) = uneven(placed)
    assert placed[waiting] == ["", ""]
    ended = next(job for job in placed if job != waiting)
    for pod in await world.pods(ended):
        await world.finish(pod)
    await world.settle(30)
    assert (await world.racks())[waiting] == placed[ended]


@racks
async def test_only_jobs_of_the_same_priority_keep_each_other_away(world):
    """Upstream: else those of a higher priority could never take their place."""
    await world.client.create(PRIORITY_CLASS, PRIORITY_CLASS.typed({"metadata": {"name": "high"}, "value": 100}))
    await world.rack("r0")
    await world.jobset(role(replicas=1, pods=2), meta=BY_AFFINITY)
    urgent = asking("1")
    urgent["template"]["spec"]["priorityClassName"] = "high"
    await world.jobset(role(replicas=1, pods=2, spec=urgent), name="urgent", meta=BY_AFFINITY)
    assert await world.racks() == {"js-workers-0": ["r0", "r0"], "urgent-workers-0": ["r0", "r0"]}
    labels = {(await world.pods(job))[0].metadata.labels[names.PRIORITY_LABEL] for job in await world.racks()}
    assert labels == {"0", "100"}


@racks
async def test_other_namespaces_are_kept_away_from_too(world):
    await world.rack("r0")
    await world.jobset(role(replicas=1, pods=2), meta=BY_AFFINITY)
    await world.client.create(NAMESPACE, NAMESPACE.typed({"metadata": {"name": "other"}}))
    meta = ObjectMeta(name="js", annotations=BY_AFFINITY["annotations"])
    await world.client.create(JOB_SET, JobSet(metadata=meta, spec=(await world.seen()).spec), "other")
    await world.settle()
    theirs = (await world.client.list(POD, "other")).items
    assert [pod.spec.node_name for pod in theirs] == ["", ""]


@racks
async def test_a_pod_that_comes_back_goes_where_the_others_are(world):
    await world.rack("r0")
    await world.rack("r1")
    await world.jobset(role(replicas=1, pods=3, spec={"backoffLimit": 6}), meta=BY_AFFINITY)
    (before,) = (await world.racks()).values()
    first = next(pod for pod in await world.pods() if pod.metadata.annotations[COMPLETION_INDEX] == "0")
    await world.finish(first, "Failed")
    await world.settle(30)
    alive = [pod for pod in await world.pods() if pod.status.phase != "Failed"]
    assert [pod.spec.node_name.rpartition("-")[0] for pod in alive] == before


@racks
async def test_nodes_that_were_set_apart_beforehand(world):
    """The other strategy: hack/label_nodes.py of JobSet has labelled and tainted the nodes."""
    for index in (0, 1):
        await world.rack(f"r{index}", **{names.NAMESPACED_JOB: f"default_js-workers-{index}"})
        for number in (0, 1):
            taint = {"key": names.NO_SCHEDULE_TAINT, "value": "true", "effect": "NoSchedule"}
            await world.client.patch(NODE, f"r{index}-{number}", {"spec": {"taints": [taint]}})
    await world.jobset(role(replicas=2, pods=2), meta=BY_SELECTOR)
    assert await world.racks() == {"js-workers-0": ["r0", "r0"], "js-workers-1": ["r1", "r1"]}
    for pod in await world.pods():
        assert pod.spec.affinity is None
        assert names.PRIORITY_LABEL not in pod.metadata.labels


@pytest.mark.parametrize("meta", [{}, BY_AFFINITY], ids=["anywhere", "exclusively"])
def test_every_pod_says_its_priority(meta):
    @racks
    async def scenario(world):
        await world.rack("r0")
        await world.jobset(role(replicas=1, pods=2), meta=meta)
        assert {pod.metadata.labels[names.PRIORITY_LABEL] for pod in await world.pods()} == {"0"}

    scenario()


@racks
async def test_a_role_may_ask_for_it_by_itself(world):
    """The pods of other Jobs of JobSets are kept away, too, though they would not mind each other."""
    await world.rack("r0")
    await world.rack("r1")
    await world.jobset(role("alone", replicas=1, pods=2, metadata=BY_AFFINITY), role("free", replicas=2))
    placed = await world.racks()
    assert uneven(placed) == {}
    assert placed["js-free-0"] == placed["js-free-1"] != placed["js-alone-0"][:1]
