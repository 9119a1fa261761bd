"""Nodes that fall silent: declared lost, tainted, and given up with their pods, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.system.integrations import test_queued_pods as queued
from tests.system.plane import World, looks, running, settings, virtual
from tests.system.queueing import queueing_world

from muster.api.conditions import find, is_true
from muster.api.core import NODE, POD, Node, Pod
from muster.api.groups.coordination import LEASE, micro_time
from muster.api.ours.embedded import FENCED_ANNOTATION, NODE_KIND_LABEL, SERVER_MACHINE, SIMULATED
from muster.api.pods import find_condition
from muster.cluster.controllers.nodes import tainteviction
from muster.cluster.controllers.nodes.eviction import Departure, plan_departure
from muster.cluster.nodes import node_object
from muster.cluster.nodes.node_object import LEASE_NAMESPACE, RENEW_SECONDS
from muster.cluster.nodes.simulated.nodes import SimulatedConnection
from muster.jobs.interruption import TAINTED, interruption_of
from muster.runtime.clock import run_virtual
from muster.runtime.tasks import cancel
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

GRACE, TOLERATION = 50.0, 300.0
UNREACHABLE = "node.kubernetes.io/unreachable"


class Machine:
    """A node of another machine, as far as the server sees it: it renews its Lease until it falls silent."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self._beats: asyncio.Task[None] | None = None

    async def join(self, *, fenced: bool = True, cpu: str = "4") -> None:
        node = await self.world.node(self.name, cpu=cpu)
        if fenced:
            meta = {"metadata": {"annotations": {FENCED_ANNOTATION: "true"}}}
            node = await self.world.client.patch(NODE, self.name, meta)
        lease = node_object.make_lease(self.name, node.metadata.uid, micro_time(self.world.clock.now()))
        await self.world.client.create(LEASE, lease)
        self.speak()

    def speak(self) -> None:
        self._beats = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            moment = micro_time(self.world.clock.now())
            await self.world.client.patch(LEASE, self.name, {"spec": {"renewTime": moment}}, LEASE_NAMESPACE)
            await self.world.clock.sleep(RENEW_SECONDS)

    async def fall_silent(self) -> None:
        if self._beats is not None:
            await cancel([self._beats])
            self._beats = None

    async def come_back(self) -> None:
        """As an agent does that still runs: it says how it is, then renews again."""
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        ready["lastHeartbeatTime"] = self.world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = {"status": {"conditions": [ready]}}
        await self.world.client.patch(NODE, self.name, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")
        self.speak()

    async def node(self) -> Node:
        return await self.world.client.get(NODE, self.name)

    async def ready(self) -> str:
        condition = find((await self.node()).status.conditions, "Ready")
        return condition.status if condition is not None else ""

    async def taints(self) -> list[str]:
        return [f"{taint.key}:{taint.effect}" for taint in (await self.node()).spec.taints]


LOST = [f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"]


async def joined(world: World, *names: str, **how: Any) -> list[Machine]:
    machines = [Machine(world, name) for name in names]
    for machine in machines:
        await machine.join(**how)
    return machines


async def bound_pod(world: World, name: str, node: str, **spec: Any) -> Pod:
    """A pod that runs on a node, and is ready."""
    document = {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none", "command": ["x"]}], **spec},
    }
    await world.client.create(POD, msgspec.convert(document, Pod), "default")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await world.client.patch(
        POD, name, {"status": status}, "default", type=STRATEGIC_MERGE_PATCH, subresource="status"
    )


async def found(world: World, name: str) -> Pod | None:
    return await world.client.find(POD, name, "default")


@virtual
async def test_a_silent_node_is_lost_and_its_pods_leave_when_they_tolerate_it_no_more(world: World) -> None:
    box, other = await joined(world, "box", "other", fenced=False)
    await bound_pod(world, "p", "box")
    await box.fall_silent()
    await world.settle(GRACE - 1)
    assert await box.ready() == "True"
    assert await box.taints() == []
    await world.settle(2)
    conditions = (await box.node()).status.conditions
    assert {(one.type, one.status, one.reason) for one in conditions} == {
        ("Ready", "Unknown", "NodeStatusUnknown"),
        ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"),
        ("DiskPressure", "Unknown", "NodeStatusNeverUpdated"),
        ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
    }
    assert await box.taints() == LOST
    pod = await found(world, "p")
    assert pod is not None
    condition = find_condition(pod, "Ready")
    assert condition is not None
    assert condition.status == "False"
    await world.settle(TOLERATION - 3)
    pod = await found(world, "p")
    assert pod is not None
    assert pod.metadata.deletion_timestamp is None
    await world.settle(4)
    pod = await found(world, "p")
    assert pod is not None, "the node may still run it: an administrator has to say that the node is off"
    assert pod.metadata.deletion_timestamp is not None
    target = find_condition(pod, "DisruptionTarget")
    assert target is not None
    assert (target.status, target.reason) == ("True", "DeletionByTaintManager")
    assert await other.taints() == []
    await world.settle(1000)
    assert await found(world, "p") is not None


@virtual
async def test_pods_of_a_fenced_node_are_written_off(world: World) -> None:
    box, _ = await joined(world, "box", "other")
    await bound_pod(world, "p", "box")
    await bound_pod(world, "kept", "box")
    await world.client.patch(POD, "kept", {"metadata": {"finalizers": ["muster.dev/test"]}}, "default")
    stays = [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}]
    await bound_pod(world, "faithful", "box", tolerations=stays)
    await bound_pod(world, "going", "box")
    await world.client.delete(POD, "going", "default")
    await box.fall_silent()
    await world.settle(GRACE + TOLERATION - 1)
    assert await found(world, "p") is not None
    assert await found(world, "going") is not None
    await world.settle(4)
    assert await found(world, "p") is None
    assert await found(world, "going") is None
    pod = await found(world, "kept")
    assert pod is not None
    assert (pod.status.phase, pod.status.reason) == ("Failed", "NodeLost")
    assert pod.status.message == "Node box which was running pod kept is unresponsive"
    target = find_condition(pod, "DisruptionTarget")
    assert target is not None
    assert target.reason == "DeletionByTaintManager"
    await world.settle(1000)
    assert await found(world, "faithful") is not None, "it tolerates the loss of its node for ever"
    assert looks(world.plane, "taint-eviction-controller") < 20


@virtual
async def test_an_administrator_says_that_a_node_is_off(world: World) -> None:
    box, _ = await joined(world, "box", "other", fenced=False)
    await bound_pod(world, "p", "box")
    await box.fall_silent()
    await world.settle(GRACE + 1)
    assert await found(world, "p") is not None
    taints = [*(await box.node()).spec.taints]
    off = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await world.client.patch(NODE, "box", {"spec": {"taints": [*taints, off]}})
    await world.settle(1)
    assert await found(world, "p") is None


@virtual
async def test_a_node_that_comes_back_in_time_keeps_its_pods(world: World) -> None:
    box, _ = await joined(world, "box", "other")
    before = await bound_pod(world, "p", "box")
    await box.fall_silent()
    await world.settle(GRACE + TOLERATION - 10)
    assert await box.taints() == LOST
    await box.come_back()
    await world.settle(1)
    assert (await box.ready(), await box.taints()) == ("True", [])
    await world.settle(1000)
    pod = await found(world, "p")
    assert pod is not None
    assert (pod.metadata.uid, pod.status.phase) == (before.metadata.uid, "Running")
    assert find_condition(pod, "DisruptionTarget") is None


@virtual
async def test_all_that_is_lost_of_a_gang_is_marked_before_any_of_it_goes(world: World) -> None:
    machines = await joined(world, "a", "b", "c", "other")
    names = [f"{kind}-{node}" for kind in ("p", "q") for node in "abc"]
    for name in names:
        await bound_pod(world, name, name[-1])
    history: list[tuple[str, str]] = []

    def changed(old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            history.append(("gone", old.metadata.name))
        elif new is not None and find_condition(new, "DisruptionTarget") and new.metadata.deletion_timestamp is None:
            history.append(("marked", new.metadata.name))

    world.plane.manager.informer(POD).on_change(changed)
    for machine in machines[:3]:
        await machine.fall_silent()
        await world.settle(4)
    await world.settle(GRACE + TOLERATION)
    assert [what for what, _ in history] == ["marked"] * 6 + ["gone"] * 6
    assert sorted(name for what, name in history if what == "gone") == sorted(names)


@virtual
async def test_where_no_node_is_left_no_pod_has_to_leave(world: World) -> None:
    machines = await joined(world, "a", "b", "c")
    await bound_pod(world, "p", "a")
    for machine in machines:
        await machine.fall_silent()
    await world.settle(GRACE + 1)
    assert [await machine.ready() for machine in machines] == ["Unknown"] * 3
    assert [await machine.taints() for machine in machines] == [LOST[:1]] * 3
    await world.settle(10 * TOLERATION)
    pod = await found(world, "p")
    assert pod is not None
    assert pod.metadata.deletion_timestamp is None
    await machines[1].come_back()
    await world.settle(1)
    assert await machines[0].taints() == LOST
    assert await machines[1].taints() == []
    await world.settle(TOLERATION + 5)
    assert await found(world, "p") is None


def stand_still(seconds: float) -> None:
    """Let time pass in which this process does not run, as while it is stopped by SIGSTOP."""
    asyncio.get_running_loop()._jumping.now += seconds  # type: ignore[attr-defined]


@virtual
async def test_time_in_which_the_server_stood_still_is_no_silence(world: World) -> None:
    box, other = await joined(world, "box", "other")
    await bound_pod(world, "p", "box")
    stand_still(3600)
    await world.settle(GRACE - 1)
    assert [await box.ready(), await other.ready()] == ["True", "True"]
    await box.fall_silent()
    await world.settle(GRACE + 1)
    assert await box.taints() == LOST
    stand_still(3600)
    await world.settle(60)
    pod = await found(world, "p")
    assert pod is not None
    assert pod.metadata.deletion_timestamp is None
    await world.settle(TOLERATION)
    assert await found(world, "p") is None


@virtual
async def test_a_node_that_has_no_lease_has_promised_nothing(world: World) -> None:
    await world.node("hand-made")
    await world.settle(10 * GRACE)
    node = await world.client.get(NODE, "hand-made")
    assert [(one.type, one.status) for one in node.status.conditions] == [("Ready", "True")]


@virtual
async def test_a_node_whose_agent_ends_before_its_first_lease_is_lost(world: World) -> None:
    for name, labels in (
        ("agents", {NODE_KIND_LABEL: SIMULATED}),
        ("own", {NODE_KIND_LABEL: SIMULATED, SERVER_MACHINE: "true"}),
    ):
        await world.node(name)
        await world.client.patch(NODE, name, {"metadata": {"labels": labels}})
    await world.settle(GRACE - 1)
    agents, own = Machine(world, "agents"), Machine(world, "own")
    assert await agents.ready() == "True"
    await world.settle(2)
    assert (await agents.ready(), await own.ready()) == ("Unknown", "True")
    assert await agents.taints() == [f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"]


@virtual
async def test_a_node_of_the_servers_own_process_is_never_lost(world: World) -> None:
    world.plane.nodes["own"] = SimulatedConnection(lambda: iter(()))
    (own,) = await joined(world, "own")
    await own.fall_silent()
    await world.settle(10 * GRACE)
    assert await own.ready() == "True"


@virtual
async def test_a_taint_of_others_makes_pods_leave(world: World) -> None:
    await world.node("n")
    bears = {"key": "repair", "operator": "Exists", "effect": "NoExecute"}
    await bound_pod(world, "at-once", "n")
    await bound_pod(world, "later", "n", tolerations=[bears | {"tolerationSeconds": 100}])
    await bound_pod(world, "never", "n", tolerations=[bears])
    await world.client.patch(NODE, "n", {"spec": {"taints": [{"key": "repair", "effect": "NoExecute"}]}})

    async def going() -> list[str]:
        pods = await world.pods()
        return sorted(pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is not None)

    await world.settle(99)
    assert await going() == ["at-once"]
    await world.settle(2)
    assert await going() == ["at-once", "later"]
    await world.settle(1000)
    assert await going() == ["at-once", "later"]


@virtual
async def test_a_job_goes_on_elsewhere(world: World) -> None:
    box, _ = await joined(world, "box", "other", cpu="1")
    await world.job("j", 2)
    await world.until(lambda: _placed(world, ["box", "other"]))
    await box.fall_silent()
    await world.settle(GRACE + 1)
    await joined(world, "spare", cpu="1")
    await world.settle(TOLERATION - 10)
    assert await world.nodes_of("j") == ["box", "other"], "never twice at once"
    await world.until(lambda: _placed(world, ["other", "spare"]), 60)


async def _placed(world: World, nodes: Sequence[str]) -> bool:
    return await world.nodes_of("j") == nodes


@virtual
async def test_a_pod_group_of_kueues_on_a_machine_that_woke_up_goes_on_with_other_pods(world: World) -> None:
    """The machine slept for so long that its pod was told to leave: the pod ends once the machine is awake."""
    box, other = await joined(world, "box", "other", fenced=False, cpu="1")
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "team", cpu=2)
    await queued.group_of(world, "g", 2)
    await world.settle()
    for name in ("g-0", "g-1"):
        await queued.play(world, name, "Running")
    [slept] = [pod.metadata.name for pod in await world.pods() if pod.spec.node_name == "box"]
    await box.fall_silent()
    await world.elapse(GRACE + TOLERATION + 30)
    going = await found(world, slept)
    assert going is not None
    interruption = interruption_of(going)
    assert interruption is not None
    assert interruption.reason == TAINTED
    await box.come_back()
    await world.settle()
    await queued.play(world, slept, "Failed")
    await world.settle()
    assert (await box.ready(), await box.taints()) == ("True", [])
    workload = await queueing_world.get(world, "g")
    assert is_true(workload.status.conditions, "Admitted"), "the group keeps its quota"
    assert not is_true(workload.status.conditions, "Finished")
    await queued.pod(world, "again", group="g", size=2)
    await world.settle()
    again = await found(world, "again")
    assert again is not None
    assert again.spec.node_name == "box"
    gone = await found(world, slept)
    assert gone is None or not gone.metadata.finalizers
    [stays] = {"g-0", "g-1"} - {slept}
    for name in (stays, "again"):
        await queued.play(world, name, "Succeeded")
    await world.settle()
    assert is_true((await queueing_world.get(world, "g")).status.conditions, "Finished")
    await other.fall_silent()


def test_renewals_make_nobody_look() -> None:
    async def body() -> None:
        async with running() as plane:
            world = World(plane)
            machines = await joined(world, *(f"n{number}" for number in range(20)))
            before, began = looks(plane, "node-lifecycle-controller"), world.clock.now()
            await world.settle(600)
            assert world.clock.now() - began == timedelta(seconds=600)
            assert looks(plane, "node-lifecycle-controller") - before <= 20 * (600 / (GRACE - RENEW_SECONDS) + 1)
            assert looks(plane, "taint-eviction-controller") == 0
            for machine in machines:
                await machine.fall_silent()

    run_virtual(body())


@virtual
async def test_a_job_that_comes_to_a_tainted_node_again_and_again_does_so_at_leisure(world: World) -> None:
    await world.node("a", taints=[{"key": "own", "effect": "NoExecute"}])
    made: set[str] = set()
    world.plane.manager.informer(POD).on_change(lambda _, new: made.add(new.metadata.uid) if new is not None else None)
    container = {"name": "c", "image": "none", "command": ["x"]}
    spec = {"restartPolicy": "Never", "nodeName": "a", "terminationGracePeriodSeconds": 0, "containers": [container]}
    await world.job("pinned", 1, template={"spec": spec}, backoffLimit=2)
    for _ in range(200):
        await world.clock.sleep(0.05)
        assert len(made) <= 10
    assert len(made) > 1, "it is no failure"


def test_a_pod_on_a_tainted_node_makes_nobody_look_at_the_pods_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def counting(pod: Pod, *args: Any, **kwargs: Any) -> Departure | None:
        looked_at.append(pod.metadata.name)
        return plan_departure(pod, *args, **kwargs)

    monkeypatch.setattr(tainteviction, "plan_departure", counting)
    own, taint = "example.com/own", {"key": "example.com/own", "effect": "NoExecute"}

    async def body() -> None:
        async with running() as plane:
            world = World(plane)
            for number in range(20):
                await world.node(f"n{number}", cpu="4", taints=[taint])
                await bound_pod(world, f"p{number}", f"n{number}", tolerations=[{"key": own, "operator": "Exists"}])
            await world.settle(5)
            looked_at.clear()
            await bound_pod(world, "more", "n0", tolerations=[{"key": own, "operator": "Exists"}])
            await world.settle(5)
            assert set(looked_at) == {"p0", "more"}

    run_virtual(body())


@pytest.mark.parametrize(("grace", "lease", "lost"), [("8s", 4, 8.0), ("2s", 8, 10.0)])
def test_a_node_has_the_grace_period_and_a_quarter_more_than_its_lease(grace: str, lease: int, lost: float) -> None:
    async def body(story: Callable[[World], Awaitable[None]]) -> None:
        text = f"muster: {{nodes: {{monitorGracePeriod: {grace}, defaultTolerationSeconds: 5}}}}"
        async with running(configuration=settings(text)) as plane:
            await story(World(plane))

    async def story(world: World) -> None:
        await world.node("other")
        (box,) = await joined(world, "box")
        patch = {"spec": {"leaseDurationSeconds": lease, "renewTime": micro_time(world.clock.now())}}
        await box.fall_silent()
        await world.client.patch(LEASE, "box", patch, LEASE_NAMESPACE)
        await bound_pod(world, "p", "box")
        await world.settle(lost - 0.5)
        assert await box.ready() == "True"
        await world.settle(1)
        assert await box.ready() == "Unknown"
        await world.settle(4)
        assert await found(world, "p") is not None
        await world.settle(1)
        assert await found(world, "p") is None

    run_virtual(body(story))
