"""Nodes of a topology that are tainted, drained or lost: their pods go elsewhere, and `unhealthyNodes` names them."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued
from tests.system.queueing import queueing_world
from tests.system.topology.test_topology import RACK, UNSENT, asking, by_rank, evictions, hall, queue, sent

from muster.api.core import CONFIG_MAP, NODE, POD, ConfigMap, Pod
from muster.api.kueue.names import WORKLOAD_ANNOTATION
from muster.api.meta import ObjectMeta
from muster.api.nodes import HOSTNAME_LABEL
from muster.queueing.topology.conversion import domains_of


async def cordon(q: Queued, name: str, *, on: bool = True) -> None:
    await q.client.patch(NODE, name, {"spec": {"unschedulable": on}})
    await q.world.settle()


async def taint(q: Queued, name: str, effect: str = "NoSchedule") -> None:
    taints = [{"key": "example.com/repair", "value": "true", "effect": effect}]
    await q.client.patch(NODE, name, {"spec": {"taints": taints}})
    await q.world.settle()


async def evict_pods(q: Queued) -> None:
    """Play a drain: the pods are told to go."""
    for pod in await q.world.pods("j"):
        await q.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)


async def places(q: Queued) -> list[str]:
    return await places_of(q, (await q.workload()).metadata.name)


async def places_of(q: Queued, workload: str) -> list[str]:
    (assigned,) = (await queueing_world.get(q.world, workload)).status.admission.pod_set_assignments
    assert assigned.topology_assignment is not None
    return [values[-1] for values, _ in domains_of(assigned.topology_assignment)]


async def marks(q: Queued) -> list[str]:
    return [node.name for node in (await q.workload()).status.unhealthy_nodes]


def within(q: Queued, *nodes: str) -> Callable[[], Awaitable[bool]]:
    async def are_there() -> bool:
        return await by_rank(q) == list(nodes)

    return are_there


@hall
async def test_pods_of_a_drained_node_get_another_in_the_same_rack(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK))
    assert await by_rank(q) == ["b1-r1-h1", "b1-r1-h1"]
    uid = (await q.workload()).metadata.uid
    await cordon(q, "b1-r1-h1")
    await q.world.settle(60)
    assert await by_rank(q) == ["b1-r1-h1", "b1-r1-h1"]  # a cordon ends no pod
    assert await marks(q) == []
    await evict_pods(q)
    await q.world.until(within(q, "b1-r1-h2", "b1-r1-h2"), 60)
    assert (await q.workload()).metadata.uid == uid
    assert await evictions(q) == []
    assert await marks(q) == []


@hall
async def test_a_taint_that_pods_do_not_tolerate_moves_those_that_have_ended(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK))
    await taint(q, "b1-r1-h1")
    await q.world.settle(60)
    assert await places(q) == ["b1-r1-h1"]
    await evict_pods(q)
    await q.world.until(within(q, "b1-r1-h2", "b1-r1-h2"), 60)


@hall
async def test_a_taint_that_pods_tolerate_moves_nothing(q: Queued) -> None:
    await queue(q)
    tolerations = {"spec": {"tolerations": [{"key": "example.com/repair", "operator": "Exists"}]}}
    await q.job(workers=2, template=asking(required=RACK) | tolerations)
    await taint(q, "b1-r1-h1")
    await evict_pods(q)
    await q.world.settle(60)
    assert await by_rank(q) == ["b1-r1-h1", "b1-r1-h1"]


@hall
async def test_a_job_whose_pods_on_a_drained_node_have_succeeded_stays(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    assert await by_rank(q) == ["b1-r1-h1", "b1-r1-h1", "b1-r1-h2", "b1-r1-h2"]
    for pod in await q.world.pods("j"):
        if pod.spec.node_name == "b1-r1-h1":
            done = {"status": {"phase": "Succeeded"}}
            await q.client.patch(POD, pod.metadata.name, done, "default", subresource="status")
    await cordon(q, "b1-r1-h1")
    await q.world.settle(60)
    assert await evictions(q) == []
    assert "b1-r1-h1" in await places(q)


@hall
async def test_pods_sent_to_a_node_that_is_tainted_first_are_made_again_elsewhere(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK) | UNSENT, backoffLimit=0)
    assert await sent(q) == ["b1-r1-h1", "b1-r1-h1"]
    await taint(q, "b1-r1-h1")

    async def are_sent_elsewhere() -> bool:
        return await sent(q) == ["b1-r1-h2", "b1-r1-h2"]

    await q.world.until(are_sent_elsewhere, 60)
    assert not (await q.now()).status.failed


async def _taints_move_nothing(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK))
    await taint(q, "b1-r1-h1")
    await evict_pods(q)
    await q.world.settle(60)
    assert await places(q) == ["b1-r1-h1"]


test_without_the_gate_taints_move_nothing = hall(
    _taints_move_nothing, "featureGates: {TASReplaceNodeOnNodeTaints: false}"
)


async def _moves_at_once(q: Queued) -> None:
    await queue(q)
    await q.job(workers=2, template=asking(required=RACK))
    await taint(q, "b1-r1-h1")
    await q.world.settle(5)
    assert await places(q) == ["b1-r1-h2"]


test_without_the_gate_running_pods_are_not_waited_for = hall(
    _moves_at_once, "featureGates: {TASReplaceNodeOnPodTermination: false}"
)


@hall
async def test_a_lost_node_is_named_before_it_is_replaced_and_no_more_once_it_is_back(q: Queued) -> None:
    await queue(q)
    await queueing_world.workload(q.world, "w", "cq", cpu=2)
    await q.world.settle()
    (host,) = await places_of(q, "w")
    node = await q.client.get(NODE, host)
    q.forget_node(host)
    await q.client.delete(NODE, host)
    await q.world.settle(0.5)
    workload = await queueing_world.get(q.world, "w")
    assert [one.name for one in workload.status.unhealthy_nodes] == [host]
    fresh = msgspec.structs.replace(node.metadata, resource_version="", uid="")
    await q.client.create(NODE, msgspec.structs.replace(node, metadata=fresh))
    status = {"status": msgspec.to_builtins(node.status)}
    await q.client.patch(NODE, host, status, subresource="status")
    await q.world.settle(0.2)
    workload = await queueing_world.get(q.world, "w")
    assert workload.status.unhealthy_nodes == ()
    await q.world.settle(60)
    assert await places_of(q, "w") == [host]


@hall
async def test_a_lost_node_is_replaced_a_second_after_it_is_named(q: Queued) -> None:
    await queue(q)
    await queueing_world.workload(q.world, "w", "cq", cpu=2)
    await q.world.settle()
    (host,) = await places_of(q, "w")
    q.forget_node(host)
    await q.client.delete(NODE, host)
    await q.world.settle(3)
    assert await places_of(q, "w") != [host]
    assert (await queueing_world.get(q.world, "w")).status.unhealthy_nodes == ()


async def _stays_named(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    await cordon(q, "b1-r1-h1")
    for pod in await q.world.pods("j"):
        if pod.spec.node_name == "b1-r1-h1":
            await q.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    await q.world.settle(120)
    assert await marks(q) == ["b1-r1-h1"]  # the rack has no other
    assert await evictions(q) == []
    await cordon(q, "b1-r1-h1", on=False)
    await q.world.settle(60)
    assert await marks(q) == []
    assert await q.running() == [0, 1, 2, 3]


test_without_the_gate_a_workload_waits_for_its_node = hall(
    _stays_named, "featureGates: {TASFailedNodeReplacementFailFast: false}"
)


@hall
async def test_a_pod_of_a_workload_that_was_never_admitted_is_ended(q: Queued) -> None:
    await queue(q)
    await queueing_world.workload(q.world, "waits", "cq", cpu=1000)
    made = await q.client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name="c", namespace="default")))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": made.metadata.uid, "controller": True}
    spec: dict[str, Any] = {
        "nodeSelector": {HOSTNAME_LABEL: "b1-r1-h1"},
        "schedulerName": "nobody",
        "containers": [{"name": "c", "image": "none"}],
    }
    meta = {"name": "stray", "annotations": {WORKLOAD_ANNOTATION: "waits"}, "ownerReferences": [owner]}
    await q.client.create(POD, msgspec.convert({"metadata": meta, "spec": spec}, Pod), "default")
    other = {"name": "own", "ownerReferences": [owner]}
    await q.client.create(POD, msgspec.convert({"metadata": other, "spec": spec}, Pod), "default")
    await q.world.settle(10)
    phases = {pod.metadata.name: pod.status.phase for pod in (await q.client.list(POD, "default")).items}
    assert phases == {"stray": "Failed", "own": "Pending"}
