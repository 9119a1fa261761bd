"""Nodes of kind `simulated`: they play their pods' lives by rule (`stages.py`), thousands of them in one process.

One informer and one queue of delayed keys for all; nothing runs, and time may be virtual. Nodes have no heartbeat: that
they live is not doubted. One whose object is deleted registers again, as a process node does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from muster.api.core import NODE, POD, Node, NodeAddress, NodeSystemInfo, Pod
from muster.api.kinds import Kind
from muster.api.ours.embedded import SIMULATED
from muster.api.status import ApiError, bad_request, not_found
from muster.api.values.quantity import Quantity
from muster.cluster.nodeconnection import CommandOptions, Dial, LogOptions, Opening
from muster.cluster.nodes import node_object
from muster.cluster.nodes.simulated.stages import DEFAULT_STAGES, Stage, advance, delay_seconds, stage_of
from muster.cluster.nodes.wire import pod_status_patch, to_wire
from muster.cluster.release import GIT_VERSION
from muster.runtime.containerlogs import KeptPod
from muster.runtime.controller import Result
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError

DEFAULT_RESOURCES: Mapping[str, Quantity] = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
# So many writes are under way at once: the store commits them together.
_WORKERS = 32
_ADDRESS = "10.0.0.1"
# A server that is asked for logs asks the node at its address, and says what came of that: so this is in words. No
# other address, for it might be a stranger's.
NOWHERE = "nothing-runs-on-simulated-nodes-so-they-have-no-logs.invalid"
_NODE: Kind[dict[str, Any]] = NODE.seen_as(dict)

log = logging.getLogger(__name__)


class SimulatedNodes(Reconciler):
    """Some nodes that are alike. Runs under a `Manager`."""

    def __init__(
        self,
        manager: Manager,
        names: Sequence[str],
        *,
        resources: Mapping[str, Quantity] | None = None,
        labels: Mapping[str, str] | None = None,
        stages: Sequence[Stage] = DEFAULT_STAGES,
    ) -> None:
        self.name = f"simulated-nodes-{names[0]}"
        super().__init__(manager, workers=_WORKERS)
        self.node_names = frozenset(names)
        self.ready = asyncio.Event()  # all nodes are registered
        self._stopped = False
        self.connection = SimulatedConnection()
        self._random = manager.random
        self._resources = {**DEFAULT_RESOURCES, **(resources or {})}
        self._labels = labels or {}
        self._stages = stages
        self._nodes = manager.informer(NODE)
        self._pods = manager.informer(POD)
        self._entered: dict[str, tuple[str, float, float]] = {}  # by uid: stage, since when, for how long
        self._controller.watch(self._pods, when=self._concerns_us)
        self._controller.watch(self._nodes, when=self._lacks_one)

    async def run(self) -> None:
        """Register the nodes, then play until `stop`."""
        names = sorted(self.node_names)
        for start in range(0, len(names), _WORKERS):
            await asyncio.gather(*(self._join(name) for name in names[start : start + _WORKERS]))
        self.ready.set()
        await super().run()

    async def stop(self) -> None:
        """Finish what is being written. The pods' lives go on after the next start."""
        self._stopped = True
        await super().stop()

    async def _join(self, name: str) -> None:
        """Register until the server agrees: a user's webhook may refuse it for a time."""
        while not self._stopped:
            try:
                await self._register(name)
            except (ApiError, TransportError) as error:
                log.warning("%s: cannot register: %s", name, error)
                await self._clock.sleep(node_object.REGISTER_SECONDS)
            else:
                return

    async def _register(self, name: str) -> None:
        known = self._nodes.get(name)
        wanted = self._node(name, known)
        if known is None:
            with ignoring("AlreadyExists"):
                await self._client.create(_NODE, to_wire(wanted))
        elif known.status.allocatable == wanted.status.allocatable and node_object.same(
            known.status.conditions, wanted.status.conditions
        ):
            return
        patch = {"status": to_wire(wanted.status)}
        await self._client.patch(_NODE, name, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")

    def _node(self, name: str, known: Node | None) -> Node:
        before = known.status.conditions if known else ()
        return node_object.node(
            name,
            node_object.labels(name, SIMULATED, "amd64", self._labels),
            self._resources,
            (NodeAddress(type="Hostname", address=NOWHERE),),
            NodeSystemInfo(
                operating_system="linux",
                architecture="amd64",
                container_runtime_version="simulated://",
                kubelet_version=f"{GIT_VERSION}-simulated",
            ),
            node_object.conditions(before, self._clock.now()),
        )

    async def _reconcile(self, key: str) -> Result:
        if key in self.node_names:
            log.warning("%s: its Node object was deleted, and is made again", key)
            await self._register(key)
            return None
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self.node_names:
            return None
        stage = stage_of(pod, self._stages)
        if stage is None:
            self._entered.pop(pod.metadata.uid, None)
            return None
        left = self._left_of(pod, stage)
        if left > 0:
            return left
        step = advance(pod, stage, self._clock.now(), _ADDRESS)
        with ignoring("NotFound", "Conflict"):  # it went meanwhile
            await self._write(pod, step.status, delete=step.delete)
        self._entered.pop(pod.metadata.uid, None)
        if step.status.phase == "Running" and stage.next.to == "end":
            restarted = msgspec.structs.replace(pod, status=step.status)
            self._enter(restarted, stage, self._clock.monotonic())  # it runs once more
        return None

    def _left_of(self, pod: Pod, stage: Stage) -> float:
        """How many seconds the pod still has in its stage. After a restart of ours, what runs counts from its start."""
        now = self._clock.monotonic()
        entered = self._entered.get(pod.metadata.uid)
        if entered is None or entered[0] != stage.name:
            since = now
            began = _running_since(pod)
            if entered is None and stage.next.to == "end" and began is not None:
                since -= max((self._clock.now() - began).total_seconds(), 0.0)
            entered = self._enter(pod, stage, since)
        return entered[1] + entered[2] - now

    def _enter(self, pod: Pod, stage: Stage, since: float) -> tuple[str, float, float]:
        entered = (stage.name, since, delay_seconds(pod, stage, self._random.fraction()))
        self._entered[pod.metadata.uid] = entered
        return entered

    async def _write(self, pod: Pod, status: Any, *, delete: bool) -> None:
        patch = pod_status_patch(pod, status)
        if patch is not None:
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
        if delete:
            await self._client.delete_object(POD, pod, grace_period_seconds=0)

    def _concerns_us(self, old: Pod | None, new: Pod | None) -> bool:
        if new is None:
            if old is not None:
                self._entered.pop(old.metadata.uid, None)
            return False
        return new.spec.node_name in self.node_names

    def _lacks_one(self, old: Node | None, new: Node | None) -> bool:
        return new is None and old is not None and old.metadata.name in self.node_names


def _running_since(pod: Pod) -> datetime | None:
    """When its containers were last started."""
    running = [status.state.running for status in pod.status.container_statuses if status.state.running]
    return max((state.started_at for state in running if state.started_at), default=None)


class SimulatedConnection:
    """What simulated pods have to say: nothing runs in them."""

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """One line, so that a reader does not wait for more."""
        yield f"{key_of(pod)}/{options.container} is simulated: it has no output\n".encode()

    def kept(self, job: str) -> Sequence[KeptPod]:  # noqa: ARG002
        """Nothing is kept of what had nothing to say."""
        return ()

    def kept_log(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:  # noqa: ARG002
        """Refuse. Raises `ApiError` (404)."""
        raise not_found("pods", pod.name)

    def exec(self, pod: Pod, options: CommandOptions) -> Opening:  # noqa: ARG002  (it is the protocol's)
        """Refuse. Raises `ApiError` (400)."""
        raise _nothing_runs(pod, "no command can run in it")

    def attach(self, pod: Pod, options: CommandOptions) -> Opening:  # noqa: ARG002
        """Refuse. Raises `ApiError` (400)."""
        raise _nothing_runs(pod, "there is nothing to attach to")

    def dial(self, pod: Pod) -> Dial:
        """Refuse. Raises `ApiError` (400)."""
        raise _nothing_runs(pod, "it has no ports")


def _nothing_runs(pod: Pod, what: str) -> ApiError:
    return bad_request(f'pod "{pod.metadata.name}" runs on the simulated node "{pod.spec.node_name}": {what}')
