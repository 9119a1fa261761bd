"""What is planned comes true: nothing is written, and what is then made goes where it was said, at whose expense."""

import re
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.gangs.test_gang_lines import with_settings
from tests.system.plane import World, running, virtual

from muster.api.batch import JOB
from muster.api.config import EMBEDDED, GroupScheduling
from muster.api.core import EVENT, NODE, POD
from muster.api.core.container import ResourceRequirements
from muster.api.core.quota import LIMIT_RANGE, LimitRange
from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget, PodDisruptionBudgetSpec
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from muster.api.meta import LabelSelector, ObjectMeta
from muster.api.podgroups.kep import POD_GROUP
from muster.api.values.durations import SECOND
from muster.cli.actions.queues.newqueue import NewQueue, make_documents
from muster.insight.reader.forecasts.plan import plan
from muster.runtime.clock import run_virtual
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

ALL: tuple[Kind[Any], ...] = (JOB, POD, POD_GROUP, WORKLOAD, EVENT, NODE, CLUSTER_QUEUE, LOCAL_QUEUE)
QUEUE_KINDS: dict[str, Kind[Any]] = {
    "ClusterQueue": CLUSTER_QUEUE,
    "LocalQueue": LOCAL_QUEUE,
    "ResourceFlavor": RESOURCE_FLAVOR,
}


def template(priority="", cpu="1", **metadata):
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu} if cpu else {}}}
    spec = {"restartPolicy": "Never", "containers": [container]} | ({"priorityClassName": priority} if priority else {})
    return {"metadata": metadata, "spec": spec}


def job(name, workers, *, queue="", priority="", cpu="1", **spec):
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    spec = {"parallelism": workers, "completions": workers, "template": template(priority, cpu)} | spec
    return JOB, {"metadata": {"name": name, "labels": labels}, "spec": spec}


def pod(name, *, group="", priority="", cpu="1"):
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return POD, template(priority, cpu, name=name, annotations=annotations)


def group(name, least):
    return POD_GROUP, {"metadata": {"name": name}, "spec": {"minMembers": least}}


async def make(world, *objects, dry_run=False):
    return [
        (kind, await world.client.create(kind.seen_as(dict), document, "default", dry_run=dry_run))
        for kind, document in objects
    ]


async def planned(world, *objects):
    """What would become of them, by name. Nothing is written."""
    before = await everything(world)
    plans = await plan(world.client, await make(world, *objects, dry_run=True), world.clock.now())
    assert await everything(world) == before
    return {one.name: one for one in plans}


async def everything(world):
    found = [one for kind in ALL for one in (await world.client.list(kind)).items]
    return {(type(one).__name__, one.metadata.uid): one.metadata.resource_version for one in found}


async def classes(world):
    for name, value in [("low", 10), ("high", 1000)]:
        await world.client.create(PRIORITY_CLASS, PriorityClass(metadata=ObjectMeta(name=name), value=value))


async def runs(world, *objects):
    """Make them, and let the nodes say that all that is bound runs."""
    await make(world, *objects)
    await world.settle(1)
    for one in await world.pods():
        if one.spec.node_name and one.status.phase == "Pending":
            status = {"phase": "Running", "startTime": world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
            patch = {"status": status | {"conditions": [{"type": "Ready", "status": "True"}]}}
            await world.client.patch(
                POD, one.metadata.name, patch, "default", type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
    await world.settle(1)


async def queue(world, name, cpu, **about):
    for document in make_documents(NewQueue(name, {"cpu": cpu}, **about)):
        if document["kind"] in QUEUE_KINDS:
            kind = QUEUE_KINDS[document["kind"]].seen_as(dict)
            await world.client.create(kind, document, document["metadata"].get("namespace", ""))
    await world.settle(1)


async def nodes_of(world, names):
    """Where the pods of a Job, or of these names, went."""
    if isinstance(names, str):
        return Counter(await world.nodes_of(names))
    return Counter(pod.spec.node_name for pod in await world.pods() if pod.metadata.name in names)


@virtual
async def test_what_starts_goes_where_it_was_said(world):
    await world.node("a", cpu="4")
    await world.node("b", cpu="8")
    train = job("train", 10)
    found = (await planned(world, train))["train"]
    assert (found.kind, found.verdict, found.quota) == ("job.batch", "starts", None)
    await runs(world, train)
    assert await nodes_of(world, "train") == found.gang.nodes


@virtual
async def test_objects_of_one_file_are_looked_at_together(world):
    await world.node("a", cpu="4")
    found = await planned(world, job("first", 3), job("second", 2), pod("alone"))
    assert {name: one.verdict for name, one in found.items()} == {
        "first": "starts",
        "second": "waits",
        "alone": "starts",
    }
    assert "of 2 identical pods fit now" in found["second"].gang.reason


@virtual
async def test_who_would_be_displaced_is_who_then_goes(world):
    await classes(world)
    await world.node("a", cpu="4")
    await world.node("b", cpu="4")
    await runs(world, job("one", 4, priority="low"), job("two", 4, priority="low"))
    urgent = job("urgent", 3, priority="high")
    found = (await planned(world, urgent))["urgent"]
    assert found.verdict == "preempts"
    [victim] = found.gang.victims
    assert (victim.pods, victim.whole) == (4, True)
    theirs = {one.metadata.name for one in await world.pods(victim.name.removeprefix("default/"))}
    await runs(world, urgent)
    assert {pod.metadata.name for pod in await world.pods() if pod.metadata.deletion_timestamp} == theirs


@virtual
async def test_budgets_that_are_in_the_way_are_named(world):
    await classes(world)
    await world.node("a", cpu="2")
    kept = PodDisruptionBudget(
        metadata=ObjectMeta(name="kept", namespace="default"),
        spec=PodDisruptionBudgetSpec(min_available=2, selector=LabelSelector()),
    )
    await world.client.create(POD_DISRUPTION_BUDGET, kept)
    await runs(world, job("one", 2, priority="low"))
    found = (await planned(world, job("urgent", 2, priority="high")))["urgent"]
    assert found.verdict == "waits"
    assert "protected by default/kept" in found.gang.reason


@virtual
async def test_a_group_is_planned_with_its_pods(world):
    await world.node("a", cpu="4")
    few = await planned(world, group("g", 3), pod("p0", group="g"), pod("p1", group="g"))
    assert (few["g"].kind, few["g"].verdict) == ("podgroup", "waits")
    assert few["g"].gang.reason == 'PodGroup "g" needs 3 pods: 2 are there'
    three = [group("g", 3), *(pod(f"p{n}", group="g") for n in range(3))]
    found = (await planned(world, *three))["g"]
    assert (found.verdict, found.gang.nodes) == ("starts", {"a": 3})
    await runs(world, *three)
    assert await nodes_of(world, {"p0", "p1", "p2"}) == found.gang.nodes


@virtual
async def test_a_group_is_planned_without_what_its_job_has_done(world):
    """The pods of the Job are gone. Its controller is another, which makes no more of them."""
    await world.node("a", cpu="4")
    grouped = template(annotations={"scheduling.k8s.io/group-name": "g"})
    await make(world, group("g", 4), job("j", 4, template=grouped, managedBy="example.com/other"))
    status = {"succeeded": 2, "startTime": world.clock.now().replace(microsecond=0)}
    await world.client.patch(JOB, "j", {"status": status}, "default", subresource="status")
    found = (await planned(world, pod("y", group="g"), pod("z", group="g")))["g"]
    assert (found.verdict, found.gang.nodes) == ("starts", {"a": 2})


@virtual
async def test_what_waits_for_others_to_end_is_told_when(world):
    await world.node("a", cpu="4")
    await runs(world, job("old", 4, activeDeadlineSeconds=600))
    found = (await planned(world, job("next", 2)))["next"]
    assert found.verdict == "waits"
    assert 590 <= (found.gang.starts - world.clock.now()).total_seconds() <= 600


@virtual
async def test_the_room_of_the_gang_at_the_head_is_kept(world):
    """Pitfall 2: what would be in its way is told so, what surely ends before is not in the way."""
    await world.node("a", cpu="4")
    await runs(world, job("old", 2, activeDeadlineSeconds=600))
    await runs(world, job("head", 4))
    found = await planned(
        world, job("long", 1), job("short", 1, activeDeadlineSeconds=60), job("longer", 1, activeDeadlineSeconds=6000)
    )
    assert {name: one.verdict for name, one in found.items()} == {
        "long": "waits",
        "short": "starts",
        "longer": "waits",
    }
    assert found["long"].gang.reason == "the nodes are kept for default/head, which goes first"


@virtual
async def test_what_never_fits_is_told_so(world):
    await world.node("a", cpu="4")
    found = (await planned(world, job("huge", 5)))["huge"]
    assert found.verdict == "never"
    assert "4 of 5 identical pods fit now" in found.gang.reason


@virtual
async def test_what_would_fit_if_its_nodes_were_well_waits_for_them(world):
    await world.node("a", cpu="4", unschedulable=True)
    await queue(world, "team", "9")
    found = await planned(world, job("free", 4), job("queued", 4, queue="team"), job("huge", 5))
    assert {name: one.verdict for name, one in found.items()} == {"free": "waits", "queued": "waits", "huge": "never"}
    assert {name: one.awaits for name, one in found.items()} == {
        "free": "a (cordoned)",
        "queued": "a (cordoned)",
        "huge": "",
    }


@virtual
async def test_of_an_elastic_job_it_is_told_that_it_may_start_smaller(world):
    await world.node("a", cpu="4")
    kind, document = job("wide", 6, completionMode="Indexed")
    document["metadata"]["annotations"] = {"muster.dev/elastic": "2:6"}
    found = (await planned(world, (kind, document)))["wide"]
    assert (found.verdict, found.note) == (
        "waits",
        "It is elastic: it starts with fewer pods, 2 or more, if so many fit.",
    )
    await runs(world, (kind, document))
    await world.settle(10)
    assert sorted((await nodes_of(world, "wide")).items()) == [("a", 4)]


@virtual
async def test_quota_comes_before_placement(world):
    await world.node("a", cpu="8")
    await queue(world, "team", "2")
    found = await planned(world, job("fits", 2, queue="team"), job("wide", 3, queue="team"), job("lost", 1, queue="x"))
    fits, wide, lost = found["fits"], found["wide"], found["lost"]
    assert (fits.verdict, fits.quota.cluster_queue, fits.quota.counts) == ("starts", "team", {"main": 2})
    assert fits.gang.nodes == {"a": 2}
    assert (wide.quota.verdict, wide.gang) == ("waits", None)
    assert {need.resource: need.missing for need in wide.quota.needs if need.missing} == {"cpu": 1000}
    assert (lost.verdict, lost.quota.reason) == ("waits", "there is no LocalQueue x in namespace default")
    await runs(world, job("fits", 2, queue="team"))
    assert await nodes_of(world, "fits") == fits.gang.nodes


@virtual
async def test_pods_get_what_their_namespace_gives_them(world):
    """A LimitRange's default request, which the server says in a dry run."""
    await world.node("a", cpu="4")
    limits = [{"type": "Container", "defaultRequest": {"cpu": "3"}}]
    ranges = {"metadata": {"name": "defaults"}, "spec": {"limits": limits}}
    await world.client.create(LIMIT_RANGE, msgspec.convert(ranges, LimitRange), "default")
    found = (await planned(world, job("train", 2, cpu="")))["train"]
    assert found.verdict == "never"
    assert "cpu 3" in found.gang.reason


@pytest.mark.parametrize(
    ("spec", "verdict", "reason"),
    [
        pytest.param({"schedulerName": "other"}, "waits", "scheduler other has to place it", id="another scheduler's"),
        pytest.param(
            {"schedulingGates": [{"name": "example.com/g"}]}, "waits", "it is gated: example.com/g", id="gated"
        ),
        pytest.param({"nodeName": "a"}, "starts", "", id="it names its node"),
    ],
)
def test_pods_that_are_not_to_be_placed(spec, verdict, reason):
    @virtual
    async def scenario(world):
        await world.node("a", cpu="4")
        kind, document = pod("alone")
        found = (await planned(world, (kind, document | {"spec": document["spec"] | spec})))["alone"]
        assert (found.verdict, found.gang.reason) == (verdict, reason)

    scenario()


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param(
            (JOB, {"metadata": {"name": "endless"}, "spec": {"parallelism": 2**31 - 1, "template": template()}}),
            "more than 100000 pods at a time are not planned",
            id="more pods than can be",
        ),
        pytest.param(job("held", 1, suspend=True), "it is suspended", id="suspended by a person"),
        pytest.param(
            job("strange", 1, priority="absent"),
            "its pods would be refused: .*no PriorityClass with name absent was found",
            id="pods that the server refuses",
        ),
    ],
)
def test_what_cannot_be_planned_is_told_so(document, problem):
    @virtual
    async def scenario(world):
        await world.node("a", cpu="4")
        [found] = (await planned(world, document)).values()
        assert (found.verdict, found.gang) == ("waits", None)
        assert re.fullmatch(problem, found.problem)

    scenario()


@virtual
async def test_what_its_quota_never_covers_is_told_so(world):
    await world.node("a", cpu="8")
    await queue(world, "team", "2")
    found = (await planned(world, job("wide", 3, queue="team")))["wide"]
    assert (found.verdict, found.gang) == ("never", None)
    assert found.never == "the quota of queue team is 2 cpu at most, and it asks for 3"


@pytest.mark.parametrize(
    ("settings", "verdict", "nodes"),
    [
        pytest.param({}, "preempts", {"a": 4}, id="as by default"),
        pytest.param({"minimum_run_time": 3600 * SECOND}, "waits", {}, id="what runs is left alone for a while"),
    ],
)
def test_the_settings_of_the_server_count_for_who_goes(settings, verdict, nodes):
    async def body():
        async with running(configuration=with_settings(**settings)) as plane:
            world = World(plane)
            await classes(world)
            await world.node("a", cpu="4")
            await runs(world, job("sweep", 4, priority="low"))
            found = (await planned(world, job("urgent", 4, priority="high")))["urgent"]
            assert (found.verdict, found.gang.nodes) == (verdict, nodes)

    run_virtual(body())


@pytest.mark.parametrize(
    ("settings", "node"),
    [pytest.param({}, "small", id="tight"), pytest.param({"scoring_strategy": "LeastAllocated"}, "large", id="least")],
)
def test_the_settings_of_the_server_count_for_where(settings, node):
    async def body():
        async with running(configuration=with_settings(**settings)) as plane:
            world = World(plane)
            await world.node("small", cpu="2")
            await world.node("large", cpu="8")
            found = (await planned(world, job("one", 1)))["one"]
            assert set(found.gang.nodes) == {node}
            await make(world, job("one", 1))
            await world.settle(1)
            assert set(await nodes_of(world, "one")) == {node}

    run_virtual(body())


def jobset(name, *roles, queue="", whole=False, **spec):
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    annotations = {"muster.dev/gang": "true"} if whole else {}
    parts = [{"name": n, "replicas": k, "template": {"spec": {"template": template()}}, **more} for n, k, more in roles]
    return JOB_SET, {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"replicatedJobs": parts, **spec},
    }


GROUP: dict[str, Any] = {"groupSchedulingConfig": {}}
ONLY_A: dict[str, Any] = {"groupSchedulingConfig": {"targetReplicatedJobs": ["a"]}}
AFTER = {"dependsOn": [{"name": "prep", "status": "Complete"}]}


@pytest.mark.parametrize(
    ("made", "verdict", "pods"),
    [
        pytest.param(jobset("j", ("a", 2, {}), ("b", 2, {})), "starts", 4, id="fits"),
        pytest.param(jobset("j", ("a", 2, {}), ("b", 3, {})), "waits", 5, id="Job by Job"),
        pytest.param(jobset("j", ("a", 2, {}), ("b", 3, {}), whole=True), "never", 5, id="whole"),
        pytest.param(jobset("j", ("a", 2, {}), ("b", 3, {}), **GROUP), "never", 5, id="a group, Job by Job"),
        pytest.param(jobset("j", ("a", 2, {}), ("b", 3, {}), **ONLY_A), "waits", 5, id="the group of one role"),
        pytest.param(jobset("j", ("prep", 1, {}), ("b", 4, AFTER)), "starts", 1, id="what comes first"),
        pytest.param(
            jobset("j", ("a", 1, {}), ("b", 9, {}), startupPolicy={"startupPolicyOrder": "InOrder"}),
            "starts",
            1,
            id="in order",
        ),
    ],
)
def test_the_jobs_of_a_jobset_go_where_it_was_said(made, verdict, pods):
    @virtual
    async def scenario(world):
        await world.node("a", cpu="4")
        found = (await planned(world, made))["j"]
        assert (found.kind, found.verdict, found.gang.pods) == ("jobset.jobset.x-k8s.io", verdict, pods)
        await make(world, made)
        await world.settle(1)
        there = Counter(pod.spec.node_name for pod in await world.pods() if pod.spec.node_name)
        assert there == found.gang.nodes

    scenario()


@pytest.mark.parametrize(("cpu", "verdict"), [("1", "starts"), ("3", "waits")])
def test_the_settings_of_the_server_count_for_what_a_barrier_asks_for(cpu, verdict):
    waiting = GroupScheduling(resources=ResourceRequirements(requests={"cpu": cpu}))
    configuration = replace(EMBEDDED, muster=replace(EMBEDDED.muster, group_scheduling=waiting))

    async def body():
        async with running(configuration=configuration) as plane:
            world = World(plane)
            await world.node("a", cpu="4")
            made = jobset("j", ("a", 2, {}), groupSchedulingConfig={})
            assert (await planned(world, made))["j"].verdict == verdict
            await make(world, made)
            await world.settle(1)
            assert sum(bool(pod.spec.node_name) for pod in await world.pods()) == (2 if verdict == "starts" else 1)

    run_virtual(body())


@virtual
async def test_a_jobset_needs_quota_for_all_its_roles(world):
    await world.node("a", cpu="8")
    await queue(world, "team", "4")
    found = await planned(world, jobset("j", ("prep", 1, {}), ("b", 4, AFTER), queue="team"))
    assert found["j"].never == "the quota of queue team is 4 cpu at most, and it asks for 5"
    found = await planned(world, jobset("j", ("prep", 1, {}), ("b", 3, AFTER), queue="team"))
    assert (found["j"].verdict, found["j"].quota.verdict) == ("starts", "starts")


@virtual
async def test_what_claims_devices_is_planned_without_them_and_that_is_said(world):
    await world.node("a", cpu="4")
    kind, document = job("j", 2)
    claim = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
    document["spec"]["template"]["spec"]["resourceClaims"] = [claim]
    found = (await planned(world, (kind, document)))["j"]
    assert (found.verdict, found.gang.nodes) == ("starts", {"a": 2})
    assert found.caveat == "Its pods claim devices: the plan ignores the quota of devices, and which nodes have them."
    assert (await planned(world, job("k", 1)))["k"].caveat == ""


@virtual
async def test_the_queue_that_used_more_lately_makes_room(world):
    await classes(world)
    await world.node("a", cpu="8")
    await queue(world, "team", "2", by_usage=True)
    for name in ("busy", "idle"):
        local = {"metadata": {"name": name}, "spec": {"clusterQueue": "team"}}
        await world.client.create(LOCAL_QUEUE.seen_as(dict), local, "default")
    await runs(world, job("before", 2, queue="busy"))
    await world.settle(7200)
    await world.client.delete(JOB, "before", "default")
    await world.settle(60)
    await runs(world, job("of-busy", 1, queue="busy", priority="low"))
    await runs(world, job("of-idle", 1, queue="idle", priority="low"))
    urgent = job("urgent", 1, queue="team", priority="high")
    plan = (await planned(world, urgent))["urgent"]
    assert (plan.verdict, plan.quota.victims) == ("preempts", ["of-busy"])
    await make(world, urgent)
    await world.settle(10)
    suspended = {one.metadata.name for one in (await world.client.list(JOB)).items if one.spec.suspend}
    assert suspended - {"urgent"} == {"of-busy"}
