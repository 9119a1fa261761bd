"""The interruptions: each is done through the API as its real actor does it, and gives back what undoes it.

What is undone is room: a node returns, a queue is open again. What became of the pods is the engine's to mend.
"""

from collections.abc import Awaitable, Callable, Mapping

from tests.system.interruptions.kinds import Order
from tests.system.interruptions.scene import NODES, QUEUE, QUOTA, Scene

from muster.api.core import NODE, POD, Pod
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

Undo = Callable[[], Awaitable[None]]
Deed = Callable[[Scene, Order], Awaitable[Undo]]
"""Interrupts an order, mostly, and perhaps others with it."""

_EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}
_URGENT_SECONDS = 10


async def _nothing() -> None:
    """There is nothing to undo."""


def _choose_pod(scene: Scene, order: Order) -> Pod | None:
    """Return one of the pods of an order that have nodes, or else any of them."""
    pods = scene.bound(order) or scene.members(order)
    return scene.chance.choice(pods) if pods else None


def _choose_node(scene: Scene, order: Order) -> str:
    """Return a node with power, one that runs pods of the order if there is one."""
    nodes = sorted({pod.spec.node_name for pod in scene.bound(order)} - scene.machines.dark)
    return scene.chance.choice(nodes or [name for name in NODES if name not in scene.machines.dark] or NODES)


async def _cordon(scene: Scene, name: str, cordoned: bool) -> None:
    with ignoring("NotFound"):  # it was lost meanwhile
        await scene.client.patch(NODE, name, {"spec": {"unschedulable": cordoned or None}})


async def _evict(scene: Scene, pod: Pod) -> None:
    meta = pod.metadata
    body = _EVICTION | {"metadata": {"name": meta.name, "namespace": meta.namespace}}
    with ignoring("NotFound", "Conflict"):
        await scene.client.post(POD, meta.name, meta.namespace, "eviction", body)


async def _disrupt(scene: Scene, pod: Pod, reason: str, message: str) -> None:
    """Say why a pod is deleted, then delete it."""
    moment = scene.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    patch = {"status": {"conditions": [condition | {"lastTransitionTime": moment}]}}
    with ignoring("NotFound", "Conflict"):
        await scene.client.patch_object(POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")
        await scene.client.delete_object(POD, pod)


async def evict_pod(scene: Scene, order: Order) -> Undo:
    """Ask the Eviction API to end one pod."""
    if (pod := _choose_pod(scene, order)) is not None:
        scene.say(f"{pod.metadata.name} is evicted")
        await _evict(scene, pod)
    return _nothing


async def delete_pod_with_reason(scene: Scene, order: Order) -> Undo:
    """Delete one pod as controllers of others do, with the condition DisruptionTarget."""
    if (pod := _choose_pod(scene, order)) is not None:
        scene.say(f"{pod.metadata.name} is deleted by another controller")
        await _disrupt(scene, pod, "DeletionByOtherController", "the node is defragmented")
    return _nothing


async def drain_node(scene: Scene, order: Order) -> Undo:
    """Cordon a node and evict its pods, as `kubectl drain` does."""
    name = _choose_node(scene, order)
    scene.say(f"{name} is drained")
    await _cordon(scene, name, True)
    for pod in scene.pods.all():
        if pod.spec.node_name == name:
            await _evict(scene, pod)

    async def uncordon() -> None:
        await _cordon(scene, name, False)

    return uncordon


async def lose_node(scene: Scene, order: Order) -> Undo:
    """Cut a node's power for ever: a cloud controller deletes its object. Another node of the name comes later."""
    name = _choose_node(scene, order)
    scene.say(f"{name} is lost")
    scene.machines.cut_power(name)
    with ignoring("NotFound"):
        await scene.client.delete(NODE, name)

    async def replace() -> None:
        await scene.machines.boot(name)

    return replace


async def partition_node(scene: Scene, order: Order) -> Undo:
    """Cut a node's connection: its Lease lapses if that lasts, and it goes on once it is back."""
    name = _choose_node(scene, order)
    scene.say(f"{name} cannot be reached")
    scene.machines.cut_power(name)

    async def reconnect() -> None:
        await scene.machines.reconnect(name)

    return reconnect


async def reboot_node(scene: Scene, order: Order) -> Undo:
    """Cut a node's power for a moment."""
    name = _choose_node(scene, order)
    scene.say(f"{name} loses power")
    scene.machines.cut_power(name)

    async def boot() -> None:
        await scene.machines.boot(name)

    return boot


async def shut_down_node(scene: Scene, order: Order) -> Undo:
    """Shut a node down in good order."""
    name = _choose_node(scene, order)
    scene.say(f"{name} is shut down")
    await _cordon(scene, name, True)
    await scene.machines.shut_down(name)

    async def boot() -> None:
        await scene.machines.boot(name)
        await _cordon(scene, name, False)

    return boot


async def preempt_on_nodes(scene: Scene, order: Order) -> Undo:
    """Submit an urgent Job without a queue: the scheduler makes room for it."""
    size = scene.chance.choice((2, 6, 8))
    scene.say(f"an urgent Job of {size} needs nodes")
    await scene.submit_urgent(f"urgent-{len(scene.urgent)}", size, queue="", run=_URGENT_SECONDS)
    del order
    return _nothing


async def preempt_by_quota(scene: Scene, order: Order) -> Undo:
    """Submit an urgent Job to the queue of the order, which is full then."""
    size = scene.chance.choice((QUOTA // 2 + 1, QUOTA))
    scene.say(f"an urgent Job of {size} needs quota")
    await scene.submit_urgent(f"urgent-{len(scene.urgent)}", size, queue=QUEUE, run=_URGENT_SECONDS)
    del order
    return _nothing


async def stop_cluster_queue(scene: Scene, order: Order) -> Undo:
    """Stop and drain the ClusterQueue."""
    del order
    scene.say("the ClusterQueue is stopped")
    await scene.client.patch(CLUSTER_QUEUE, QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}})

    async def resume() -> None:
        await scene.client.patch(CLUSTER_QUEUE, QUEUE, {"spec": {"stopPolicy": "None"}})

    return resume


async def stop_local_queue(scene: Scene, order: Order) -> Undo:
    """Stop and drain the LocalQueue."""
    del order
    scene.say("the LocalQueue is stopped")
    await scene.client.patch(LOCAL_QUEUE, QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}}, "default")
    scene.local_queue_is_open = False

    async def resume() -> None:
        scene.local_queue_is_open = True
        await scene.client.patch(LOCAL_QUEUE, QUEUE, {"spec": {"stopPolicy": "None"}}, "default")

    return resume


async def hold_job(scene: Scene, order: Order) -> Undo:
    """Hold an order, as `muster hold` does."""
    names = [one.metadata.name for one in scene.workloads_of(order)]
    scene.say(f"{order.name} is held")

    async def set_active(active: bool) -> None:
        for name in names:
            with ignoring("NotFound"):
                await scene.client.patch(WORKLOAD, name, {"spec": {"active": active}}, "default")

    await set_active(False)

    async def release() -> None:
        await set_active(True)

    return release


async def kill_server(scene: Scene, order: Order) -> Undo:
    """Kill the controllers after some more writes; nodes run on."""
    del order
    writes = scene.chance.choice((0, 1, 2, 3, 5, 8, 13, 21))
    scene.say(f"the controllers are killed after {writes} more writes")
    scene.engine.wire.writes_left = writes
    return scene.restart_engine


async def stop_cluster(scene: Scene, order: Order) -> Undo:
    """Stop the cluster in good order: the pods are ended, then the controllers."""
    del order
    scene.say("the cluster is stopped")
    names = [name for name in NODES if name not in scene.machines.dark]
    for name in names:
        await scene.machines.shut_down(name, with_cluster=True)
    await scene.stop_engine()

    async def start() -> None:
        await scene.restart_engine()
        for name in names:
            await scene.machines.reconnect(name)

    return start


async def cut_power(scene: Scene, order: Order) -> Undo:
    """Cut the power of the whole machine, server and nodes."""
    del order
    scene.say("the power is cut")
    names = [name for name in NODES if name not in scene.machines.dark]
    for name in names:
        scene.machines.cut_power(name)
    await scene.stop_engine()

    async def start() -> None:
        await scene.restart_engine()
        for name in names:
            await scene.machines.boot(name)

    return start


DEEDS: Mapping[str, Deed] = {
    "evict": evict_pod,
    "delete": delete_pod_with_reason,
    "drain": drain_node,
    "lose": lose_node,
    "partition": partition_node,
    "reboot": reboot_node,
    "shut down": shut_down_node,
    "preempt": preempt_on_nodes,
    "kill": kill_server,
    "stop": stop_cluster,
    "power": cut_power,
}
QUEUE_DEEDS: Mapping[str, Deed] = {
    "reclaim": preempt_by_quota,
    "stop queue": stop_cluster_queue,
    "stop local queue": stop_local_queue,
    "hold": hold_job,
}
"""Those that only an order in a queue notices."""
