"""Run nodes of kind `simulated`: they simulate their pods' statuses by rule (`stages.py`), thousands in one process.

All nodes share one informer and one queue of delayed keys. No program runs, and time may be virtual. This module sends
no heartbeat, because an embedded cluster does not need it (`leases` renews Leases for other clusters). If a Node object
is deleted, the node registers again, as a process node does. Nodes with devices also simulate a driver of resource
claims (`driver.py`).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from muster.api.core import NODE, POD, Node, NodeAddress, NodeStatus, NodeSystemInfo, Pod
from muster.api.groups.resource import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE, ResourceClaim
from muster.api.kinds import Kind
from muster.api.ours.embedded import FENCED_ANNOTATION, SIMULATED
from muster.api.status import ApiError, bad_request, not_found
from muster.api.values.quantity import Quantity, parse_thousandths, parse_whole_units
from muster.cluster.nodeconnection import CommandOptions, Dial, LogOptions, Opening, Reading
from muster.cluster.nodes import node_object
from muster.cluster.nodes.simulated.driver import class_for, is_prepared, slice_for, slice_name, stale_slices
from muster.cluster.nodes.simulated.stages import DEFAULT_STAGES, Stage, advance, delay_seconds, stage_of
from muster.cluster.nodes.wire import node_status_patch, pod_status_patch, to_wire
from muster.cluster.release import GIT_VERSION
from muster.runtime.containerlogs import KeptPod
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError

DEFAULT_RESOURCES: Mapping[str, Quantity] = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
# The maximum number of concurrent writes: the store commits them together.
_WORKERS = 32
_ADDRESS = "10.0.0.1"
# The address of simulated nodes. A server that is asked for logs connects to the node's address and shows the failure
# to the user, so the address is a sentence. A real address might belong to another machine.
NOWHERE = "nothing-runs-on-simulated-nodes-so-they-have-no-logs.invalid"
_NODE: Kind[dict[str, Any]] = NODE.seen_as(dict)

log = logging.getLogger(__name__)


class SimulatedNodes(Reconciler):
    """A set of simulated nodes with the same properties. A `Manager` runs it."""

    def __init__(
        self,
        manager: Manager,
        names: Sequence[str],
        *,
        resources: Mapping[str, Quantity] | None = None,
        labels: Mapping[str, str] | None = None,
        stages: Sequence[Stage] = DEFAULT_STAGES,
        version: str = GIT_VERSION,
        devices: Mapping[str, int] | None = None,
        registers: bool = True,
    ) -> None:
        """Make the nodes.

        version: the version of the server, which the nodes report as their own.
        devices: how many devices each node has, by driver.
        registers: whether this instance creates the Node objects; otherwise other programs create and delete them.
        """
        self.name = f"simulated-nodes-{names[0]}"
        super().__init__(manager, workers=_WORKERS)
        self.node_names = frozenset(names)
        self.ready = asyncio.Event()  # all nodes are registered
        self._stopped = False
        self.connection = SimulatedConnection(self._play_usage)
        self._random = manager.random
        self._resources = {**DEFAULT_RESOURCES, **(resources or {})}
        self._labels = labels or {}
        self._stages = stages
        self._registers = registers
        self._version = version
        self._nodes = manager.informer(NODE)
        self._pods = manager.informer(POD)
        self._entered: dict[str, tuple[str, float, float]] = {}  # by pod uid: stage, since when, for how long
        self._devices = devices or {}
        self._classes: set[str] = set()  # drivers whose device class exists
        self._slices = manager.informer(RESOURCE_SLICE, optional=True)
        self._claims = manager.informer(RESOURCE_CLAIM, optional=True)
        self._controller.watch(self._claims, _list_pods_of_claim, when=lambda _, new: new is not None)
        self._controller.watch(self._pods, when=self._is_ours)
        self._controller.watch(self._nodes, when=self._is_own_node_gone)

    def _play_usage(self) -> Iterator[tuple[tuple[str, str], Reading]]:
        """Yield the simulated usage of running containers. They always use all of their requests."""
        now = self._clock.now()
        for pod in self._pods.all():
            if pod.spec.node_name in self.node_names and pod.status.phase == "Running" and pod.status.start_time:
                seconds = max((now - pod.status.start_time).total_seconds(), 0.0)
                for container in pod.spec.containers:
                    requests = container.resources.requests
                    cores, memory = (
                        parse_thousandths(requests.get("cpu", "0")) / 1000,
                        parse_whole_units(requests.get("memory", "0")),
                    )
                    yield (pod.metadata.uid, container.name), Reading(cores * seconds, memory)

    async def run(self) -> None:
        """Remove stale ResourceSlices, register the nodes unless other programs do, then simulate until `stop`."""
        for stale in stale_slices(self._slices.all(), self.node_names, self._devices):
            with ignoring("NotFound"):
                await self._client.delete_object(RESOURCE_SLICE, stale)
        names = sorted(self.node_names) if self._registers else []
        for start in range(0, len(names), _WORKERS):
            await asyncio.gather(*(self._register_with_retries(name) for name in names[start : start + _WORKERS]))
        self.ready.set()
        await super().run()

    async def stop(self) -> None:
        """Finish pending writes, and stop. After the next start the nodes simulate the same pods further."""
        self._stopped = True
        await super().stop()

    async def _register_with_retries(self, name: str) -> None:
        """Register a node, and retry until the server accepts it, as a user's webhook may refuse it for a time."""
        while not self._stopped:
            try:
                await self._register(name)
            except (ApiError, TransportError) as error:
                log.warning("%s: cannot register: %s", name, error)
                await self._clock.sleep(node_object.REGISTER_SECONDS)
            else:
                return

    async def _register(self, name: str) -> None:
        await self._register_node(name)
        if self._devices:
            await self._publish_devices(name)

    async def _publish_devices(self, name: str) -> None:
        """Publish the ResourceSlices of a node, and the DeviceClasses of its drivers."""
        node = await self._client.get(NODE, name)
        for driver, count in self._devices.items():
            if driver not in self._classes:
                with ignoring("AlreadyExists"):
                    await self._client.create(DEVICE_CLASS, class_for(driver))
                self._classes.add(driver)
            known = self._slices.get(slice_name(name, driver))
            if known is not None and all(one.uid != node.metadata.uid for one in known.metadata.owner_references):
                with ignoring("NotFound"):  # the slice belonged to an earlier node of this name
                    await self._client.delete_object(RESOURCE_SLICE, known)
                known = None
            wanted = slice_for(node, driver, count, known)
            if known is None:
                await self._client.create(RESOURCE_SLICE, wanted)
            elif wanted is not known:
                patch = {"spec": msgspec.to_builtins(wanted.spec)}
                await self._client.patch_object(RESOURCE_SLICE, known, patch)

    async def _register_node(self, name: str) -> None:
        known = self._nodes.get(name)
        wanted = self._make_node(name, known)
        if known is None:
            with ignoring("AlreadyExists"):
                await self._client.create(_NODE, to_wire(wanted))
        elif not wanted.metadata.labels.items() <= known.metadata.labels.items():
            await self._client.patch(
                _NODE, name, {"metadata": {"labels": wanted.metadata.labels}}, type=STRATEGIC_MERGE_PATCH
            )
        elif (
            known.status.allocatable == wanted.status.allocatable
            and known.status.node_info == wanted.status.node_info
            and node_object.is_same(wanted.status.conditions, known.status.conditions)
        ):
            return
        patch = node_status_patch(known.status if known else NodeStatus(), wanted.status)
        await self._client.patch(_NODE, name, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")

    def _make_node(self, name: str, known: Node | None) -> Node:
        before = known.status.conditions if known else ()
        return node_object.make_node(
            name,
            node_object.make_labels(name, SIMULATED, "amd64", self._labels),
            self._resources,
            (NodeAddress(type="Hostname", address=NOWHERE),),
            NodeSystemInfo(
                operating_system="linux",
                architecture="amd64",
                container_runtime_version="simulated://",
                kubelet_version=f"{self._version}-simulated",
            ),
            node_object.make_conditions(before, self._clock.now()),
            annotations={FENCED_ANNOTATION: "true"},  # nothing runs there, so nothing can run twice
        )

    async def _reconcile(self, key: str) -> Result:
        if key in self.node_names:
            log.warning("%s: its Node object was deleted, and is created again", key)
            await self._register(key)
            return None
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self.node_names:
            return None
        stage = stage_of(pod, self._stages)
        if stage is None:
            self._entered.pop(pod.metadata.uid, None)
            return None
        if stage.next.to == "run" and not is_prepared(pod, self._claims.get):
            return None  # a change of its claims wakes the pod
        remaining = self._compute_seconds_left(pod, stage)
        if remaining > 0:
            return remaining
        step = advance(pod, stage, self._clock.now(), _ADDRESS)
        with ignoring("NotFound", "Conflict"):  # the pod was deleted meanwhile
            await self._write_status(pod, step.status, delete=step.delete)
        self._entered.pop(pod.metadata.uid, None)
        if step.status.phase == "Running" and stage.next.to == "end":
            restarted = msgspec.structs.replace(pod, status=step.status)
            self._enter_stage(restarted, stage, self._clock.monotonic())  # the pod runs once more
        return None

    def _compute_seconds_left(self, pod: Pod, stage: Stage) -> float:
        """Return how many seconds remain until a simulated pod leaves its stage.

        If the stage is new, record that it begins. After a restart of the server, the time of a run counts from the
        start of the containers.
        """
        now = self._clock.monotonic()
        entered = self._entered.get(pod.metadata.uid)
        if entered is None or entered[0] != stage.name:
            since = now
            began = _find_running_since(pod)
            if entered is None and stage.next.to == "end" and began is not None:
                since -= max((self._clock.now() - began).total_seconds(), 0.0)
            entered = self._enter_stage(pod, stage, since)
        return entered[1] + entered[2] - now

    def _enter_stage(self, pod: Pod, stage: Stage, since: float) -> tuple[str, float, float]:
        entered = (stage.name, since, delay_seconds(pod, stage, self._random.fraction()))
        self._entered[pod.metadata.uid] = entered
        return entered

    async def _write_status(self, pod: Pod, status: Any, *, delete: bool) -> None:
        patch = pod_status_patch(pod, status)
        if patch is not None:
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
        if delete:
            await self._client.delete_object(POD, pod, grace_period_seconds=0)

    def _is_ours(self, old: Pod | None, new: Pod | None) -> bool:
        if new is None:
            if old is not None:
                self._entered.pop(old.metadata.uid, None)
            return False
        return new.spec.node_name in self.node_names

    def _is_own_node_gone(self, old: Node | None, new: Node | None) -> bool:
        return self._registers and new is None and old is not None and old.metadata.name in self.node_names


def _list_pods_of_claim(claim: ResourceClaim) -> Iterator[str]:
    yield from (f"{claim.metadata.namespace}/{one.name}" for one in claim.status.reserved_for)


def _find_running_since(pod: Pod) -> datetime | None:
    """Return when the pod's containers last started; None if they do not run."""
    running = [status.state.running for status in pod.status.container_statuses if status.state.running]
    return max((state.started_at for state in running if state.started_at), default=None)


class SimulatedConnection:
    """The API server's access to simulated pods. played: yields the simulated usage of their containers."""

    def __init__(self, played: Callable[[], Iterable[tuple[tuple[str, str], Reading]]]) -> None:
        self._play_usage = played

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield one line, which says that there is no output."""
        yield f"{key_of(pod)}/{options.container} is simulated: it has no output\n".encode()

    def list_kept_pods(self, job: str) -> Sequence[KeptPod]:  # noqa: ARG002
        """Return no pods, because simulated pods leave no logs."""
        return ()

    def kept_log(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:  # noqa: ARG002
        """Raise `ApiError` (404), because simulated pods leave no logs."""
        raise not_found("pods", pod.name)

    def exec(self, pod: Pod, options: CommandOptions) -> Opening:  # noqa: ARG002  (the protocol's argument)
        """Raise `ApiError` (400), because simulated pods run no programs."""
        raise _make_not_running_error(pod, "no command can run in it")

    def attach(self, pod: Pod, options: CommandOptions) -> Opening:  # noqa: ARG002
        """Raise `ApiError` (400), because simulated pods run no programs."""
        raise _make_not_running_error(pod, "there is nothing to attach to")

    def dial(self, pod: Pod) -> Dial:
        """Raise `ApiError` (400), because simulated pods run no programs."""
        raise _make_not_running_error(pod, "it has no ports")

    async def measure_usage(self) -> Mapping[tuple[str, str], Reading]:
        """Return the simulated usage of containers, by the pod's UID and the container's name."""
        return dict(self._play_usage())


def _make_not_running_error(pod: Pod, action: str) -> ApiError:
    where = f'"{pod.spec.node_name}" of pod "{pod.metadata.name}"'
    return bad_request(f"nothing runs on simulated nodes, such as {where}: {action}")
