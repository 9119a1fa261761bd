"""What /metrics says of builds, of gates that open and of Workloads that are made, under Kueue's names."""

import platform
from importlib.metadata import version
from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued, story
from tests.system.plane import World, under, virtual
from tests.system.queueing import queueing_world
from tests.system.queueing.queue_samples import samples

from muster.api.batch import JOB
from muster.api.core import POD, Pod
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, TOPOLOGY, Topology
from muster.api.kueue.names import (
    ADMISSION_GATE,
    ELASTIC_JOB,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_NAME_LABEL,
    POD_GROUP_TOTAL_COUNT,
    POD_SET_REQUIRED_TOPOLOGY,
    QUEUE_NAME_LABEL,
    TOPOLOGY_GATE,
)
from muster.api.nodes import HOSTNAME_LABEL

GATES = "pod_scheduling_gate_removal_seconds"
CREATIONS = "workload_creation_latency_seconds"
SLICES = "replaced_workload_slices_total"
ELASTIC = {"annotations": {ELASTIC_JOB: "true"}}


async def pod(world: World, name: str, group: str = "", annotations: Any = None) -> None:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    labels = {QUEUE_NAME_LABEL: "cq"} | ({POD_GROUP_NAME_LABEL: group} if group else {})
    document = {
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def a_queue(world: World) -> None:
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "cq", cpu=4)


async def scale(q: Queued, size: int) -> None:
    await q.change(spec={"parallelism": size, "completions": size})


@virtual
async def test_which_build_it_is(world: World) -> None:
    text = (await samples(world))["build_info"]
    ((build_date, compiler, commit, git_version, language, where),) = text
    assert set(text.values()) == {1}
    assert git_version == f"v{version('muster-batch')}"
    assert language == f"python{platform.python_version()}"
    assert (compiler, where) == (platform.python_implementation(), f"linux/{platform.machine()}")
    assert (commit, build_date) == ("unknown", "unknown")


@virtual
async def test_the_gates_of_pods_alone_and_in_groups(world: World) -> None:
    await a_queue(world)
    await pod(world, "alone")
    await world.settle()
    now = await samples(world)
    assert now[f"{GATES}_count"] == {("cq", "false", ADMISSION_GATE): 1}
    # A group that may start bit by bit is admitted with its first pod.
    marks = {POD_GROUP_TOTAL_COUNT: "2", POD_GROUP_FAST_ADMISSION: "true"}
    await pod(world, "first", "g", marks)
    await world.settle()
    before = (await samples(world))[f"{GATES}_sum"]["cq", "true", ADMISSION_GATE]
    await world.settle(30)
    await pod(world, "second", "g", marks)
    await world.settle()
    now = await samples(world)
    assert now[f"{GATES}_count"]["cq", "true", ADMISSION_GATE] == 2
    assert 30 < now[f"{GATES}_sum"]["cq", "true", ADMISSION_GATE] - before < 40, "since the admission of the group"
    await world.client.delete(CLUSTER_QUEUE, "cq")
    for name in ("alone", "first", "second"):
        await world.client.delete(POD, name, "default")
    await world.settle()
    assert f"{GATES}_count" not in await samples(world)


@story
async def test_the_gates_of_pods_with_places(q: Queued) -> None:
    topology = {"metadata": {"name": "default"}, "spec": {"levels": [{"nodeLabel": HOSTNAME_LABEL}]}}
    await q.client.create(TOPOLOGY, msgspec.convert(topology, Topology))
    await queueing_world.flavor(q.world, "f", nodeLabels={"zone": "a"}, topologyName="default")
    await queueing_world.queue(q.world, "cq", 4, flavor="f")
    await q.job(workers=3, template={"metadata": {"annotations": {POD_SET_REQUIRED_TOPOLOGY: HOSTNAME_LABEL}}})
    assert await q.running() == [0, 1, 2]
    assert (await samples(q.world))[f"{GATES}_count"] == {("cq", "false", TOPOLOGY_GATE): 3}


@story
async def test_an_elastic_job_that_is_given_more(q: Queued) -> None:
    await q.queue(cpu=4)
    await q.job(workers=2, metadata=ELASTIC)
    await q.job("other", 2)
    await scale(q, 4)
    assert SLICES not in await samples(q.world), "there is no quota for more"
    await q.world.settle(600)
    await q.client.delete(JOB, "other", "default")
    await q.world.settle(10)
    assert await q.running() == [0, 1, 2, 3]
    now = await samples(q.world)
    assert now[SLICES] == {("cq",): 1}
    assert now[f"{GATES}_count"] == {("cq", "false", ELASTIC_JOB): 2}
    assert now[f"{GATES}_sum"]["cq", "false", ELASTIC_JOB] < 10, "since they were given quota"
    await scale(q, 1)
    assert (await samples(q.world))[SLICES] == {("cq",): 1}, "less is no slice"


@story
async def test_how_soon_jobs_have_workloads(q: Queued) -> None:
    await q.queue(cpu=4)
    await q.job("j", 2)
    await pod(q.world, "alone")
    await q.job("late", 1, queue="", suspend=True)
    await q.world.settle(60)
    await q.change("late", metadata={"labels": {QUEUE_NAME_LABEL: "cq"}})
    await q.job("changed", 1, queue="", suspend=True)
    await q.change("changed", metadata={"labels": {QUEUE_NAME_LABEL: "cq"}}, spec={"backoffLimit": 3})
    assert len(await q.workloads()) == 4
    now = await samples(q.world)
    assert now[f"{CREATIONS}_count"] == {("Job",): 2, ("Pod",): 1}
    assert 60 < now[f"{CREATIONS}_sum"]["Job",] < 70
    assert now[f"{CREATIONS}_sum"]["Pod",] < 5


@under("featureGates: {MetricForWorkloadCreationLatency: false}")
async def test_how_soon_is_not_said_if_the_feature_is_off(world: World) -> None:
    await a_queue(world)
    await pod(world, "alone")
    await world.settle()
    now = await samples(world)
    assert f"{GATES}_count" in now
    assert f"{CREATIONS}_count" not in now


@virtual
async def test_victims_that_go_for_another_already(world: World) -> None:
    """The heads of two queues are tried in one cycle: both queues wait for the same flavor until then."""
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "bank", cpu=0, cohortName="all")
    quotas = {"cpu": ("default", 1), "memory": ("late", 1)}
    groups = [
        {
            "coveredResources": [resource],
            "flavors": [{"name": flavor, "resources": [{"name": resource, "nominalQuota": amount}]}],
        }
        for resource, (flavor, amount) in quotas.items()
    ]
    reclaim = {"reclaimWithinCohort": "Any"}
    for name in ("one", "two"):
        await queueing_world.queue(world, name, 1, cohortName="all", preemption=reclaim, resourceGroups=groups)
    await queueing_world.workload(world, "big", "bank", cpu=2)
    await world.settle()
    for name in ("one", "two"):
        await queueing_world.workload(world, f"of-{name}", name)
        await world.settle()
    await queueing_world.flavor(world, "late")
    await world.settle()
    now = await samples(world)
    assert now["preempted_workloads_total"] == {("one", "InCohortReclamation"): 1}
    assert now["preemption_target_recomputations_total"] == {("two", "deferred_fit"): 1}


CUSTOM = """
featureGates: {CustomMetricLabels: true}
metrics:
  customLabels: [{name: team}, {name: owner, sourceKind: LocalQueue}]
"""


async def _labels_of_queues(world: World) -> None:
    await a_queue(world)
    await world.client.patch(CLUSTER_QUEUE, "cq", {"metadata": {"labels": {"team": "red"}}})
    await world.client.patch(LOCAL_QUEUE, "cq", {"metadata": {"labels": {"owner": "ann"}}}, "default")
    await world.settle()
    await pod(world, "alone")
    await world.settle()
    now = await samples(world)
    assert now[f"{GATES}_count"] == {("cq", "red", "false", ADMISSION_GATE): 1}
    assert now[f"{CREATIONS}_count"] == {("ann", "Pod"): 1}
    await world.client.patch(CLUSTER_QUEUE, "cq", {"metadata": {"labels": {"team": "blue"}}})
    await world.settle(10)
    assert f"{GATES}_count" not in await samples(world)  # the series of other labels begin anew


test_labels_of_queues_are_labels_of_waits = under(CUSTOM)(_labels_of_queues)
