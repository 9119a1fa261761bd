"""Topology aware scheduling on a cluster: Jobs and pods that keep to racks, from their annotations to their nodes."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.documents import documents, needs_the_peers
from tests.system.integrations.queued_jobs import Queued
from tests.system.plane import World, under
from tests.system.queueing import queueing_world

from muster.api.batch import JOB, Job
from muster.api.conditions import find
from muster.api.core import EVENT, NODE, POD, Pod
from muster.api.kueue import CLUSTER_QUEUE, TOPOLOGY, WORKLOAD, Topology
from muster.api.kueue.names import (
    ADMISSION_GATE,
    POD_GROUP_NAME_LABEL,
    POD_GROUP_TOTAL_COUNT,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_SIZE,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
    QUEUE_NAME_LABEL,
    TOPOLOGY_GATE,
    WORKLOAD_ANNOTATION,
)
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.ours.embedded import SERVER_MACHINE
from muster.api.status import ApiError
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.queueing.topology.conversion import domains_of
from muster.runtime.control.manager import Manager

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
NAMES = [f"b{b}-r{r}-h{h}" for b in (1, 2) for r in (1, 2) for h in (1, 2)]
LEVELS = [BLOCK, RACK, HOSTNAME_LABEL]


def hall(test: Callable[[Queued], Awaitable[None]], settings: str = "") -> Callable[[], None]:
    """A test in virtual time: two blocks of two racks of two nodes of 2 CPUs, and the queue `cq` over them."""

    async def played(world: World) -> None:
        manager = Manager(world.client, world.clock, world.random)
        nodes = SimulatedNodes(manager, NAMES, resources={"cpu": "2"}, labels={"zone": "a", SERVER_MACHINE: "true"})
        manager.add(nodes)
        run = asyncio.create_task(manager.run())
        await nodes.ready.wait()
        for name in NAMES:
            labels = {BLOCK: name[:2], RACK: name[:5]}
            await world.client.patch(NODE, name, {"metadata": {"labels": labels}})
        try:
            queued = Queued(world)
            queued.forget_node = lambda name: _forget(nodes, name)
            await test(queued)
        finally:
            await manager.stop()
            await run

    played.__name__, played.__doc__ = getattr(test, "__name__", "run"), test.__doc__
    return under(settings)(played)


def _forget(nodes: SimulatedNodes, name: str) -> None:
    nodes.node_names -= {name}


async def queue(q: Queued, levels: list[str] | None = None, **spec: Any) -> None:
    await topology(q, levels or LEVELS)
    await queueing_world.flavor(q.world, "tas", nodeLabels={"zone": "a"}, topologyName="default")
    await queueing_world.queue(q.world, "cq", 100, flavor="tas", **spec)
    await q.world.settle()


async def topology(q: Queued, levels: list[str]) -> None:
    document = {"metadata": {"name": "default"}, "spec": {"levels": [{"nodeLabel": label} for label in levels]}}
    await q.client.create(TOPOLOGY, msgspec.convert(document, Topology))


def asking(**annotations: str) -> dict[str, Any]:
    names = {
        "required": POD_SET_REQUIRED_TOPOLOGY,
        "preferred": POD_SET_PREFERRED_TOPOLOGY,
        "unconstrained": POD_SET_UNCONSTRAINED_TOPOLOGY,
        "slice": POD_SET_SLICE_REQUIRED_TOPOLOGY,
        "size": POD_SET_SLICE_SIZE,
    }
    return {"metadata": {"annotations": {names[key]: value for key, value in annotations.items()}}}


async def by_rank(q: Queued, name: str = "j") -> list[str]:
    """The nodes of a Job's pods, by completion index."""
    pods = [pod for pod in await q.world.pods(name) if pod.metadata.deletion_timestamp is None]
    pods.sort(key=lambda pod: int(pod.metadata.labels["batch.kubernetes.io/job-completion-index"]))
    return [pod.spec.node_name for pod in pods]


async def why(q: Queued, name: str = "j") -> tuple[str, str]:
    (found,) = [one for one in (await q.workload(name)).status.conditions if one.type == "QuotaReserved"]
    return found.reason, found.message


async def evictions(q: Queued) -> list[str]:
    """Why the Job's workload had to leave nodes."""
    workload, events = await q.workload(), (await q.client.list(EVENT, "default")).items
    about = [event for event in events if event.involved_object.uid == workload.metadata.uid]
    return [event.message for event in about if event.reason == "EvictedDueToNodeFailures"]


@hall
async def test_a_job_that_requires_a_rack_gets_one(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    workload = await q.workload()
    (podset,) = workload.spec.pod_sets
    assert podset.topology_request is not None
    assert podset.topology_request.required == RACK
    (assigned,) = workload.status.admission.pod_set_assignments
    assert json.loads(msgspec.json.encode(assigned.topology_assignment)) == {
        "levels": [HOSTNAME_LABEL],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"individual": {"prefix": "b1-r1-h", "roots": ["1", "2"]}}],
                "podCounts": {"universal": 2},
            }
        ],
    }
    assert await by_rank(q) == ["b1-r1-h1", "b1-r1-h1", "b1-r1-h2", "b1-r1-h2"], "ranks follow the domains"
    for pod in await q.world.pods("j"):
        assert not pod.spec.scheduling_gates
        assert pod.spec.node_selector[HOSTNAME_LABEL] == pod.spec.node_name
        assert pod.metadata.annotations[WORKLOAD_ANNOTATION] == workload.metadata.name
    assert await q.running() == [0, 1, 2, 3]


@hall
async def test_what_no_rack_takes_waits_and_is_told_why(q: Queued) -> None:
    await queue(q)
    await q.job(workers=5, template=asking(required=RACK))
    await q.world.settle(5)
    assert await why(q) == (
        "TopologyPlacementFailed",
        'couldn\'t assign flavors to pod set main: topology "default" allows to fit only 4 out of 5 pod(s)',
    )
    assert not await q.world.pods("j")


@hall
async def test_a_job_that_prefers_a_rack_gets_a_block_instead(q: Queued) -> None:
    await queue(q)
    await q.job(workers=6, template=asking(preferred=RACK))
    assert {node[:2] for node in await by_rank(q)} == {"b1"}
    assert Counter(node[:5] for node in await by_rank(q)) == {"b1-r1": 4, "b1-r2": 2}


@hall
async def test_slices_keep_to_racks(q: Queued) -> None:
    await queue(q)
    await q.job(workers=8, template=asking(required=BLOCK, slice=RACK, size="4"))
    nodes = await by_rank(q)
    assert [node[:5] for node in nodes] == ["b1-r1"] * 4 + ["b1-r2"] * 4


@hall
async def test_who_waits_for_a_rack_starts_when_one_is_free(q: Queued) -> None:
    await queue(q)
    for name in ("a", "b", "c", "d", "e"):
        await q.job(name, workers=4, template=asking(required=RACK))
    assert await q.running("e") == []
    assert {tuple({node[:5] for node in await by_rank(q, name)}) for name in "abcd"} == {
        ("b1-r1",), ("b1-r2",), ("b2-r1",), ("b2-r2",)
    }  # fmt: skip
    await q.client.delete(JOB, "b", "default")
    await q.world.settle()
    await q.world.settle(60)
    assert {node[:5] for node in await by_rank(q, "e")} == {"b1-r2"}


@hall
async def test_other_pods_on_the_nodes_count(q: Queued) -> None:
    await queue(q)
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    for number, node in enumerate(NAMES):
        document = {"metadata": {"name": f"other-{number}"}, "spec": {"nodeName": node, "containers": [container]}}
        await q.client.create(POD, msgspec.convert(document, Pod), "default")
    await q.world.settle()
    await q.job(workers=4, template=asking(required=RACK))
    await q.world.settle(5)
    assert "allows to fit only 2 out of 4 pod(s)" in (await why(q))[1]
    for number in (2, 3):
        await q.client.delete(POD, f"other-{number}", "default")
    await q.world.settle(60)
    assert {node[:5] for node in await by_rank(q)} == {"b1-r2"}


@hall
async def test_without_host_names_pods_go_to_a_rack_and_the_scheduler_chooses_the_node(q: Queued) -> None:
    await queue(q, [BLOCK, RACK])
    await q.job(workers=4, template=asking(required=RACK))
    (assigned,) = (await q.workload()).status.admission.pod_set_assignments
    assert assigned.topology_assignment.levels == (BLOCK, RACK)
    assert {node[:5] for node in await by_rank(q)} == {"b1-r1"}
    assert all(pod.spec.node_selector[RACK] == "b1-r1" for pod in await q.world.pods("j"))


@hall
async def test_without_a_request_pods_get_places_where_all_flavors_have_a_topology(q: Queued) -> None:
    await queue(q)
    await q.job(workers=3)
    assert len(await by_rank(q)) == 3
    assert all(await by_rank(q))
    assert (await q.workload()).spec.pod_sets[0].topology_request is None
    for pod in await q.world.pods("j"):
        assert pod.metadata.annotations[POD_SET_UNCONSTRAINED_TOPOLOGY] == "true"
        assert pod.spec.node_selector[HOSTNAME_LABEL] == pod.spec.node_name


@hall
async def test_a_pod_that_fails_is_replaced_where_it_was(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    before = await by_rank(q)
    (lost,) = [
        pod for pod in await q.world.pods("j")
        if pod.metadata.labels["batch.kubernetes.io/job-completion-index"] == "2"
    ]  # fmt: skip
    await q.client.delete(POD, lost.metadata.name, "default")
    await q.world.elapse(60)
    assert await q.running() == [0, 1, 2, 3]
    assert await by_rank(q) == before


@hall
async def test_an_evicted_job_is_as_before_and_comes_back(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    await q.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await q.world.settle(60)
    job = await q.now()
    assert job.spec.suspend
    assert await q.template_is_clean()
    assert not job.spec.template.spec.scheduling_gates
    assert job.spec.template.metadata.annotations == {POD_SET_REQUIRED_TOPOLOGY: RACK}
    await q.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"stopPolicy": "None"}})
    await q.world.settle(60)
    assert await q.running() == [0, 1, 2, 3]
    assert len({node[:5] for node in await by_rank(q)}) == 1


@hall
async def test_a_queue_without_its_topology_admits_nothing_until_it_is_there(q: Queued) -> None:
    await queueing_world.flavor(q.world, "tas", nodeLabels={"zone": "a"}, topologyName="default")
    await queueing_world.queue(q.world, "cq", 100, flavor="tas")
    await q.job(workers=2, template=asking(required=RACK))
    await q.world.settle(5)
    active = (await q.client.get(CLUSTER_QUEUE, "cq")).status.conditions[0]
    assert (active.status, active.reason) == ("False", "TopologyNotFound")
    assert active.message == ('Can\'t admit new workloads: there is no Topology "default" for TAS flavor "tas".')
    await topology(q, LEVELS)
    await q.world.settle(60)
    assert await q.running() == [0, 1]


@pytest.mark.parametrize("gates", [(), (ADMISSION_GATE, TOPOLOGY_GATE)], ids=["plain", "as Kueue's webhook sets them"])
def test_a_group_of_pods_follows_its_assignment(gates: Sequence[str]) -> None:
    hall(partial(_follows, gates=gates))()


async def _follows(q: Queued, gates: Sequence[str]) -> None:
    await queue(q)
    spec = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    for number in range(4):
        annotations = {POD_GROUP_TOTAL_COUNT: "4", POD_SET_REQUIRED_TOPOLOGY: RACK}
        labels = {QUEUE_NAME_LABEL: "cq", POD_GROUP_NAME_LABEL: "g"}
        document = {
            "metadata": {"name": f"g-{number}", "labels": labels, "annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }
        await q.client.create(POD, msgspec.convert(document, Pod), "default")
    await q.world.settle(60)
    pods = await q.world.pods()
    assert not any(pod.spec.scheduling_gates for pod in pods)
    assert Counter(pod.spec.node_name for pod in pods) == {"b1-r1-h1": 2, "b1-r1-h2": 2}
    assert all(pod.spec.node_selector[HOSTNAME_LABEL] == pod.spec.node_name for pod in pods)
    assert (await q.client.get(WORKLOAD, "g", "default")).spec.pod_sets[0].topology_request.required == RACK


@hall
async def test_an_annotation_that_makes_no_sense_is_refused(q: Queued) -> None:
    await queue(q)
    with pytest.raises(ApiError, match="must not contain more than one topology annotation"):
        await q.job(workers=2, template=asking(required=RACK, preferred=RACK))
    with pytest.raises(ApiError, match="must not be greater than pod set count 2"):
        await q.job(workers=2, template=asking(required=BLOCK, slice=RACK, size="3"))


@hall
async def test_pods_wait_behind_the_gate_until_they_are_told_where_to_go(q: Queued) -> None:
    """Another program makes the pods of a Job before its Workload says where they go."""
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK))
    template = (await q.now()).spec.template
    assert [gate.name for gate in template.spec.scheduling_gates] == [TOPOLOGY_GATE]
    assert template.metadata.annotations[WORKLOAD_ANNOTATION] == (await q.workload()).metadata.name
    marks = {POD_SET_REQUIRED_TOPOLOGY: RACK}
    stray = msgspec.convert(
        {
            "metadata": {
                "name": "stray",
                "annotations": {WORKLOAD_ANNOTATION: "none"} | marks,
            },
            "spec": {"schedulingGates": [{"name": TOPOLOGY_GATE}], "containers": [{"name": "c", "image": "none"}]},
        },
        Pod,
    )
    await q.client.create(POD, stray, "default")
    await q.world.settle(60)
    assert (await q.client.get(POD, "stray", "default")).spec.scheduling_gates


@needs_the_peers
@hall
async def test_upstreams_sample_lands_in_one_rack(q: Queued) -> None:
    """The Jobs that the JobSet of the sample would make, in a queue of ours."""
    await queue(q)
    (sample,) = [one for _, one in documents("manifests/kueue/*jobset-tas-required.yaml") if one["kind"] == "JobSet"]
    (replicated,) = sample["spec"]["replicatedJobs"]
    spec = replicated["template"]["spec"]
    spec["completionMode"] = "Indexed"
    del spec["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"]  # the queue has CPUs alone
    spec["template"]["spec"]["restartPolicy"] = "Never"
    document = {"metadata": {"name": "j", "labels": {QUEUE_NAME_LABEL: "cq"}}, "spec": spec}
    await q.client.create(JOB, msgspec.convert(document, Job), "default")
    await q.world.settle()
    assert await by_rank(q) == ["b1-r1-h1", "b1-r1-h1", "b1-r1-h2", "b1-r1-h2"]


async def lose(q: Queued, node: str) -> None:
    """The node goes for good, and so do its pods."""
    q.forget_node(node)
    await q.client.delete(NODE, node)
    for pod in await q.world.pods():
        if pod.spec.node_name == node:
            await q.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    await q.world.elapse(60)


@hall
async def test_pods_of_a_lost_node_get_another_in_the_same_rack(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK))
    assert await by_rank(q) == ["b1-r1-h1", "b1-r1-h1"]
    uid = (await q.workload()).metadata.uid
    await lose(q, "b1-r1-h1")
    workload = await q.workload()
    assert workload.metadata.uid == uid
    assert (await q.state())["Admitted"] == "True Admitted"
    assert "Evicted" not in await q.state()
    assert not workload.status.unhealthy_nodes
    assert await by_rank(q) == ["b1-r1-h2", "b1-r1-h2"]


@hall
async def test_a_job_whose_rack_has_no_other_node_starts_anew_elsewhere(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    await lose(q, "b1-r1-h1")
    assert any("no replacement for a failed node: b1-r1-h1" in message for message in await evictions(q))
    assert {node[:5] for node in await by_rank(q)} == {"b1-r2"}
    assert await q.running() == [0, 1, 2, 3]


async def no_more_ready(q: Queued, name: str) -> None:
    """The node is not heard of any more."""
    node = await q.client.get(NODE, name)
    unready = [
        msgspec.structs.replace(one, status="Unknown", last_transition_time=q.world.clock.now())
        if one.type == "Ready"
        else one
        for one in node.status.conditions
    ]
    status = {"status": {"conditions": msgspec.to_builtins(unready)}}
    await q.client.patch(NODE, name, status, subresource="status")


@hall
async def test_a_node_that_is_not_ready_is_waited_for_as_long_as_its_pods_run(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK))
    await no_more_ready(q, "b1-r1-h1")
    await q.world.settle(60)
    (assigned,) = (await q.workload()).status.admission.pod_set_assignments
    assert assigned.topology_assignment is not None
    assert domains_of(assigned.topology_assignment) == ((("b1-r1-h1",), 2),)
    for pod in await q.world.pods("j"):
        await q.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)

    async def are_elsewhere() -> bool:
        return await by_rank(q) == ["b1-r1-h2", "b1-r1-h2"]

    await q.world.until(are_elsewhere, 120)


UNSENT = {"spec": {"schedulerName": "nobody"}}


async def sent(q: Queued) -> list[str]:
    """Where the pods that have not ended are to go, by completion index."""
    pods = [
        pod for pod in await q.world.pods("j")
        if pod.metadata.deletion_timestamp is None and pod.status.phase != "Failed"
    ]  # fmt: skip
    pods.sort(key=lambda pod: int(pod.metadata.labels["batch.kubernetes.io/job-completion-index"]))
    return [pod.spec.node_selector.get(HOSTNAME_LABEL, "") for pod in pods]


async def bind(q: Queued, pod: Pod) -> None:
    node = pod.spec.node_selector[HOSTNAME_LABEL]
    binding = {"metadata": {"name": pod.metadata.name}, "target": {"kind": "Node", "name": node}}
    await q.client.post(POD, pod.metadata.name, "default", "binding", binding)
    await q.world.settle()


@hall
async def test_a_job_none_of_whose_pods_has_come_to_a_node_starts_anew_when_theirs_is_lost(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK) | UNSENT, backoffLimit=0)
    assert await sent(q) == ["b1-r1-h1", "b1-r1-h1"]
    await no_more_ready(q, "b1-r1-h1")

    async def are_sent_elsewhere() -> bool:
        return await sent(q) == ["b1-r1-h2", "b1-r1-h2"]

    await q.world.until(are_sent_elsewhere, 120)
    assert not (await q.now()).status.failed
    assert await evictions(q) == ["Workload was evicted as its pods had not started when their node failed: b1-r1-h1"]


@hall
async def test_pods_that_had_not_come_to_a_lost_node_are_made_again_where_others_run_on(q: Queued) -> None:
    await queue(q)
    await q.job(workers=3, template=asking(preferred=RACK) | UNSENT)
    assert await sent(q) == ["b1-r1-h1", "b1-r1-h1", "b1-r1-h2"]
    (bound,) = [pod for pod in await q.world.pods("j") if pod.spec.node_selector[HOSTNAME_LABEL] == "b1-r1-h2"]
    await bind(q, bound)
    await no_more_ready(q, "b1-r1-h1")

    async def are_sent_elsewhere() -> bool:
        return await sent(q) == ["b1-r2-h1", "b1-r2-h1", "b1-r1-h2"]

    await q.world.until(are_sent_elsewhere, 120)
    failed = [pod for pod in await q.world.pods("j") if pod.status.phase == "Failed"]
    why = [find(pod.status.conditions, "TerminatedByKueue").reason for pod in failed]
    assert why == ["UnschedulableOnAssignedNode"] * 2
    assert (await q.now()).status.failed == 0, "they were interrupted"
    assert (await q.client.get(POD, bound.metadata.name, "default")).metadata.uid == bound.metadata.uid


@hall
async def test_a_pod_that_has_ended_does_not_run(q: Queued) -> None:
    """Its Job has one failure left, and keeps it."""
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK) | UNSENT, backoffLimit=1)
    first = (await q.world.pods("j"))[0]
    await bind(q, first)
    await q.client.patch(POD, first.metadata.name, {"status": {"phase": "Failed"}}, "default", subresource="status")
    await q.world.settle(30)
    assert (await q.now()).status.failed == 1
    assert await sent(q) == ["b1-r1-h1", "b1-r1-h1"]
    await no_more_ready(q, "b1-r1-h1")

    async def are_sent_elsewhere() -> bool:
        return await sent(q) == ["b1-r1-h2", "b1-r1-h2"]

    await q.world.until(are_sent_elsewhere, 120)
    assert (await q.now()).status.failed == 1


@hall
async def test_who_chose_a_node_without_having_been_sent_there_waits_for_it(q: Queued) -> None:
    """A topology down to racks sends nobody to a node."""
    await queue(q, levels=[BLOCK, RACK])
    chosen = {"spec": {"nodeSelector": {HOSTNAME_LABEL: "b1-r1-h1"}, "schedulerName": "nobody"}}
    await q.job(workers=2, template=asking(required=BLOCK) | chosen)
    before = [pod.metadata.uid for pod in await q.world.pods("j")]
    await no_more_ready(q, "b1-r1-h1")
    name = (await q.workload()).metadata.name
    await q.client.patch(WORKLOAD, name, {"metadata": {"labels": {"looked": "at"}}}, "default")
    await q.world.settle(60)
    assert [pod.metadata.uid for pod in await q.world.pods("j")] == before
    assert await evictions(q) == []


async def _no_places(q: Queued) -> None:
    await queue(q)
    await q.job(workers=5, template=asking(required=RACK))
    (assigned,) = (await q.workload()).status.admission.pod_set_assignments
    assert assigned.topology_assignment is None
    assert await q.running() == [0, 1, 2, 3, 4]


NO_PLACES = """
featureGates:
  TopologyAwareScheduling: false
  TASFailedNodeReplacement: false
  TASFailedNodeReplacementFailFast: false
  TASHandleOverlappingFlavors: false
  TASMultiLayerTopology: false
  TASProfileMixed: false
  TASRecomputeAssignmentWithinSchedulingCycle: false
  TASReplaceNodeOnNodeTaints: false
  TASReplaceNodeOnPodTermination: false
"""

test_without_the_gate_a_topology_means_nothing = hall(_no_places, NO_PLACES)


CREDITS = """
resources:
  transformations:
  - input: cpu
    strategy: Retain
    outputs: {example.com/credits: "10"}
"""


async def _beside_credits(q: Queued) -> None:
    await topology(q, LEVELS)
    await queueing_world.flavor(q.world, "tas", nodeLabels={"zone": "a"}, topologyName="default")
    await queueing_world.flavor(q.world, "credits")
    groups = [
        {"coveredResources": [resource], "flavors": [{"name": name, "resources": [{"name": resource, **quota}]}]}
        for name, resource, quota in (
            ("tas", "cpu", {"nominalQuota": 8}),
            ("credits", "example.com/credits", {"nominalQuota": 30}),
        )
    ]
    await queueing_world.queue(q.world, "cq", 0, resourceGroups=groups)
    await q.job("a", workers=2, template=asking(required=HOSTNAME_LABEL))
    (assigned,) = (await q.workload("a")).status.admission.pod_set_assignments
    assert assigned.flavors == {"cpu": "tas", "example.com/credits": "credits"}
    assert len(set(await by_rank(q, "a"))) == 1
    await q.job("b", workers=2, template=asking(required=HOSTNAME_LABEL))
    assert (
        "insufficient unused quota for example.com/credits in flavor credits, 10 more needed" in (await why(q, "b"))[1]
    )


test_what_a_transformation_makes_of_requests_needs_no_topology = hall(_beside_credits, CREDITS)
