"""A node of kind `process`: runs the pods that are bound to it as processes of this machine.

Thin: it follows the pods through an informer, keeps a `PodRunner` for each, writes what they report, and says that the
node is alive. What a restart needs is on disk (`storage.py`, `shims.py`): a new server finds what the one before it has
left running, goes on with the pods that still exist, and ends the rest.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from muster.api.core import NODE, POD, ObjectReference, Pod
from muster.api.ours.usage import USAGE_ANNOTATION, Usage
from muster.api.pods import is_finished
from muster.api.status import ApiError
from muster.api.values.quantity import Quantity, amount
from muster.cluster.nodes.connection import Connection
from muster.cluster.nodes.container import processes
from muster.cluster.nodes.container.environment import Names
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.container.logs import Logs
from muster.cluster.nodes.disk.keeping import Keeping
from muster.cluster.nodes.disk.leftovers import end_pod
from muster.cluster.nodes.disk.past import Past
from muster.cluster.nodes.disk.remover import Remover
from muster.cluster.nodes.disk.states import States
from muster.cluster.nodes.disk.storage import PodRecord, Storage, seed_of
from muster.cluster.nodes.gpus.finding import Health, NoAnswerError, discover, first_of, played
from muster.cluster.nodes.gpus.holding import Gpus, NoGpusError
from muster.cluster.nodes.heartbeat import Heartbeat
from muster.cluster.nodes.machine import cgroups, isolation, machine
from muster.cluster.nodes.machine.isolation import Isolation
from muster.cluster.nodes.machine.machine import Machine
from muster.cluster.nodes.network.network import Network
from muster.cluster.nodes.pod import admission, restoring
from muster.cluster.nodes.pod.facts import Ending
from muster.cluster.nodes.pod.runner import PodRunner
from muster.cluster.nodes.pod.status import SHUTDOWN_MESSAGE, SHUTDOWN_REASON
from muster.cluster.nodes.shownobjects import AllObjects, NamedObjects, ShownObjects
from muster.cluster.nodes.wire import pod_status_patch
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.refusals import is_refusal
from muster.runtime.tasks import cancel
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# Pods are cheap here, but each is a process and a shim or more.
DEFAULT_PODS = 500
# Of a stop; the manager's own limit is longer.
SHUTDOWN_SECONDS = 30.0
# Pods of a group begin together: none of them waits for what is written of the others.
_WORKERS = 64
_SWEEP_SECONDS = 10.0
# The GPUs are looked at this often.
_GPU_SECONDS = 30.0

log = logging.getLogger(__name__)


class ProcessNode:
    """One node. Runs under a `Manager`, after the `Network` that it joins.

    state: a directory of its own, the same after a restart.
    resources: what the node offers instead of what the machine has; quantities.
    share: which of how many equal parts of the machine is this node's.
    outlive_server: whether pods keep running when the server is killed, to be found by the next one; otherwise they
        end with it, whatever ends it.
    defaults: environment variables that pods have unless they say otherwise (PATH, HOME).
    states: where jobs keep what outlives their pods; None for nowhere.
    guest: the machine's identity where the cluster is not ours: the node asks for no more than a kubelet may see, and
        logs go with their pods.
    port: where the server reaches the node by HTTPS, as a kubelet; 0 for nowhere, None where no server asks.
    played_gpus: how many GPUs it makes up, instead of those of the machine.
    """

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        network: Network,
        *,
        name: str,
        state: Path,
        resources: Mapping[str, Quantity] | None = None,
        outlive_server: bool = True,
        defaults: Mapping[str, str] | None = None,
        states: States | None = None,
        share: tuple[int, int] = (0, 1),
        host_address: str = "127.0.0.1",
        tried: list[Isolation] | None = None,
        guest: str = "",
        port: int | None = None,
        played_gpus: int = 0,
    ) -> None:
        self.name = f"node-agent-{name}"
        self.node_name = name
        self.ready = asyncio.Event()  # the node is registered and takes pods
        self.leave_pods_running = False
        self._manager = manager
        self._client, self._clock = manager.client, manager.clock
        self._recorder = recorder
        self._network = network
        self._state = state
        self._offered = resources or {}
        self._outlive_server = outlive_server
        self._defaults = defaults or {}
        self._states = states
        self._guest = guest
        self._share, self._played_gpus = share, played_gpus
        self._host_address, self._port = host_address, port
        self._tried = tried
        self._storage = Storage(state)
        self._remover = Remover(manager, self.name, self._stays)
        self._kit: Kit | None = None
        self._lifeline: tuple[int, int] | None = None
        self._runners: dict[str, PodRunner] = {}
        past = Past(self._storage)
        self._keeping = Keeping(manager, name, self._storage, past, self._remover, states, guest=bool(guest))
        self.connection = Connection(Logs(self._storage, self._clock), past, self._runners, self._clock)
        self._gone: dict[str, set[str]] = {}  # uids of pods whose objects are gone, by key
        self._ended: dict[str, str] = {}  # uids of pods that have ended here, whatever the informer still says, by key
        self._draining = False
        self._drained = asyncio.Event()
        self._heartbeat: Heartbeat | None = None
        self.pods = network.pods
        self._controller = manager.controller(self.name, self._reconcile, workers=_WORKERS)
        self._controller.watch(self.pods, when=self._concerns_us)
        self._shown: ShownObjects = (NamedObjects if guest else AllObjects)(manager, self._tell)
        network.join(name)

    async def run(self) -> None:
        """Run pods until `stop`."""
        processes.adopt_orphans()
        kit = self._kit = await self._equip()
        await self._take_stock(kit)
        self._heartbeat = Heartbeat(
            self._client,
            self._clock,
            self.node_name,
            self._machine,
            kit.allocatable,
            self._state,
            self._host_address,
            self._port,
            kit.gpus,
            self._guest,
        )
        await self._heartbeat.register()
        for notice in (*self._storage.notices, *map(_not_ours, self._storage.foreign())):
            log.warning("%s: %s", self.node_name, notice)
            self._event("ForeignFiles", notice)
        self.ready.set()
        side = [
            asyncio.create_task(self._heartbeat.run(), name=f"{self.name}-heartbeat"),
            asyncio.create_task(self._sweep(), name=f"{self.name}-orphans"),
            asyncio.create_task(self._remover.run(), name=f"{self.name}-removal"),
            *([asyncio.create_task(self._watch_gpus(kit.gpus), name=f"{self.name}-gpus")] if kit.gpus.devices else []),
        ]
        try:
            await self._controller.run()
        finally:
            await cancel(side)

    async def stop(self) -> None:
        """End the pods (unless they are to be left running) and stop.

        Pods are told as when a machine is shut down: they fail with reason Terminated and condition DisruptionTarget.
        """
        self._draining = True
        if self._heartbeat is not None:
            await self._heartbeat.retire()
        if not self.leave_pods_running:
            ending = Ending("shutdown", self._clock.monotonic(), SHUTDOWN_SECONDS, SHUTDOWN_REASON, SHUTDOWN_MESSAGE)
            for runner in self._runners.values():
                runner.end(ending)
            if self._runners:
                await self._drained.wait()
        await self._remover.stop()
        await self._controller.stop()
        for runner in self._runners.values():
            await runner.close()
        if self._lifeline is not None:
            for descriptor in self._lifeline:
                os.close(descriptor)
            self._lifeline = None

    async def _sweep(self) -> None:
        orphans = processes.Orphans()
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            orphans.sweep()

    async def _look_around(self) -> Machine:
        """Find the node's part of the machine; of GPUs whose driver does not answer it has none, which is said."""
        share = self._share
        if self._played_gpus:
            mine = machine.part(machine.discover(self._state), *share)
            return replace(mine, gpus=played(self._played_gpus))
        try:
            gpus = await discover()
        except NoAnswerError as error:
            log.warning("%s: %s: it offers none", self.node_name, error)
            gpus = ()
        return machine.part(machine.discover(self._state, gpus), *share)

    async def _watch_gpus(self, gpus: Gpus) -> None:
        """Look at the GPUs every so often: one that is ill goes to no pod, and who has it is told."""
        health = Health(list(gpus.devices.values()), self._state)
        while True:
            try:
                found = await health.problems()
            except (NoAnswerError, OSError) as error:
                found = dict.fromkeys(gpus.devices, f"how it is cannot be found out: {error}")
            if found != gpus.ill:
                for name, trouble in found.items() - gpus.ill.items():
                    self._event("GPUIll", f"GPU {name}: {trouble}; no pod gets it until it is well")
                gpus.ill = found
                for key in self._runners:
                    self._controller.queue.add(key)
            await self._clock.sleep(_GPU_SECONDS)

    async def _equip(self) -> Kit:
        """See what the machine has and allows. Raises RuntimeError where nothing can run."""
        processes.check_kernel()
        self._machine = await self._look_around()
        offers = {resource: amount(resource, quantity) for resource, quantity in self._offered.items()}
        scratch = self._storage.scratch()
        found = await isolation.probe(scratch, self._tried)
        self._remover.add([scratch])
        if not found.complete:
            log.warning("%s: %s", self.node_name, found.warning())
        groups = cgroups.prepare(f"muster-{self.node_name}-{seed_of(self._state):08x}")
        if not self._outlive_server:
            self._lifeline = os.pipe2(os.O_CLOEXEC)
        return Kit(
            node_name=self.node_name,
            client=self._client,
            clock=self._clock,
            recorder=self._recorder,
            storage=self._storage,
            remover=self._remover,
            network=self._network,
            gpus=Gpus(first_of(self._machine.gpus, offers)),
            isolation=found,
            allocatable=offered(self._machine, self._offered),
            host_address=self._host_address,
            cgroups=None if isinstance(groups, str) else groups,
            no_cgroups_because=groups if isinstance(groups, str) else "",
            lifeline=self._lifeline[0] if self._lifeline else -1,
            defaults=self._defaults,
            states=self._states,
            guest=bool(self._guest),
        )

    async def _take_stock(self, kit: Kit) -> None:
        """Go on with the pods that were here before, and end what belongs to none."""
        ours = {pod.metadata.uid: pod for pod in self.pods.all() if pod.spec.node_name == self.node_name}
        records = [record for record in self._storage.pods() if not self._keeping.recalls(record)]
        running = {uid for uid, pod in ours.items() if not is_finished(pod)}
        orphans = [record for record in records if record.uid not in running]
        await asyncio.gather(*(self._end_orphan(kit, record, forget=record.uid not in ours) for record in orphans))
        for record in records:
            if record.uid in running:
                self._network.restore(record.uid, record.address or ours[record.uid].status.pod_ip)
                kit.gpus.restore(record.uid, record.gpus)
        known = {record.uid for record in records}
        for uid in running:
            pod = ours[uid]
            if uid not in known:
                self._network.restore(uid, pod.status.pod_ip)
            if uid in known or pod.status.container_statuses:
                await self._go_on(kit, pod)
        self._remover.add(self._storage.left_over())
        self._keeping.tidy()

    async def _go_on(self, kit: Kit, pod: Pod) -> None:
        """Go on with a pod; one of which it cannot be told what has become is ended, and never run again in a doubt."""
        try:
            self._take(kit, pod).restore()
        except Exception as error:
            log.exception("%s: pod %s cannot be gone on with", self.node_name, key_of(pod))
            await end_pod(self._storage, pod.metadata.uid)
            why = f"Cannot go on with the pod after a restart: {error}"
            runner = self._runners[key_of(pod)] = self._runner(kit, pod)
            runner.end(Ending("rejected", self._clock.monotonic(), 0.0, "UnexpectedAdmissionError", why))

    async def _end_orphan(self, kit: Kit, record: PodRecord, *, forget: bool) -> None:
        """Kill what runs of a pod that is no more."""
        if count := await end_pod(self._storage, record.uid):
            log.info("%s: ended %d containers of pod %s/%s", self.node_name, count, record.namespace, record.name)
        if kit.cgroups is not None:
            kit.cgroups.remove(record.uid)
        storage = self._storage.of(record.uid)
        self._remover.add(self._keeping.let_go(record) if forget else storage.remove_volumes())

    async def _reconcile(self, key: str) -> Result:
        kit = self._kit
        assert kit is not None, "the controller runs once the node is equipped"
        pod = self.pods.get(key)
        runner = self._runners.get(key)
        if runner is not None and (pod is None or pod.metadata.uid != runner.uid):
            runner.end(Ending("gone", self._clock.monotonic(), 0.0))
            return await self._step(key, runner)
        for uid in self._gone.pop(key, ()):
            self._network.forget(uid)
            self._keeping.forget(uid)
        if pod is None or pod.spec.node_name != self.node_name:
            self._ended.pop(key, None)
            return None
        if runner is not None:
            runner.update(pod)
            return await self._step(key, runner)
        if is_finished(pod) or self._ended.get(key) == pod.metadata.uid:
            if pod.metadata.deletion_timestamp is not None:
                await self._delete(pod)
            return None
        if self._draining:
            return None
        return await self._step(key, self._take(kit, pod))

    def _take(self, kit: Kit, pod: Pod) -> PodRunner:
        """Take a pod on; one that does not fit is refused."""
        runner = self._runner(kit, pod)
        others = [other.pod for other in self._runners.values() if other.holds]
        rejection = admission.check(pod, others, kit.allocatable)
        if rejection is None:
            try:
                runner.accept()
            except NoGpusError as error:
                rejection = admission.unavailable(str(error))
        if rejection is not None:
            runner.end(Ending("rejected", self._clock.monotonic(), 0.0, rejection.reason, rejection.message))
        self._runners[key_of(pod)] = runner
        self._shown.enter(pod)
        return runner

    def _runner(self, kit: Kit, pod: Pod) -> PodRunner:
        key = key_of(pod)
        return PodRunner(kit, pod, wake=lambda: self._controller.queue.add(key))

    async def _step(self, key: str, runner: PodRunner) -> Result:
        """One look at a pod: act, report, and tidy up once it is over."""
        plan = runner.step()
        if await runner.begun():
            plan = runner.step()
        if plan.over or plan.status.phase in ("Succeeded", "Failed"):
            runner.give_back()
        patch = pod_status_patch(runner.pod, plan.status)
        if patch is not None and plan.over and (used := restoring.used(runner.pod, runner.storage)) != Usage():
            patch["metadata"] = {"annotations": {USAGE_ANNOTATION: str(used)}}
        gone = False
        if patch is not None:
            try:
                written = await self._client.patch_object(
                    POD, runner.pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )
                runner.update(written)
            except ApiError as error:
                # A stop does not wait for room on the disk: how the pod ended is in its records.
                if not (self._draining and plan.over and is_refusal(error, "InsufficientStorage")):
                    await self._must_be_gone(runner.pod, error)
                gone = True
        if plan.remove and not gone:
            await self._delete(runner.pod)
        if gone and not plan.over:
            runner.end(Ending("gone", self._clock.monotonic(), 0.0))
        if plan.over:
            await runner.clean_up()
            del self._runners[key]
            self._shown.leave(runner.uid)
            self._ended[key] = runner.uid
            if self._draining and not self._runners:
                self._drained.set()
            return 0.0  # there may be a successor of the same name
        return plan.look_again_in

    async def _delete(self, pod: Pod) -> None:
        """Take away the object of a pod that was asked to end and has ended."""
        try:
            await self._client.delete_object(POD, pod, grace_period_seconds=0)
        except ApiError as error:
            await self._must_be_gone(pod, error)

    async def _must_be_gone(self, pod: Pod, error: ApiError) -> None:
        """Raises the error, unless it is because the pod is no more. A conflict may be over anything."""
        if is_refusal(error, "NotFound"):
            return
        if is_refusal(error, "Conflict"):
            found = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if found is None or found.metadata.uid != pod.metadata.uid:
                return
        raise error

    def _stays(self, what: str) -> None:
        self._event("FailedRemoval", what)

    def _event(self, reason: str, message: str) -> None:
        """Something about the node itself. As with the kubelet, its name stands for the uid too."""
        node = ObjectReference(kind=NODE.kind, api_version=NODE.api_version, name=self.node_name, uid=self.node_name)
        self._recorder.event(node, "Warning", reason, message)

    def _concerns_us(self, old: Pod | None, new: Pod | None) -> bool:
        ours = [pod for pod in (old, new) if pod is not None and pod.spec.node_name == self.node_name]
        if new is None and old is not None and ours:
            self._gone.setdefault(key_of(old), set()).add(old.metadata.uid)
        return bool(ours)

    def _tell(self, namespace: str, names: Names) -> None:
        for runner in self._runners.values():
            if runner.pod.metadata.namespace == namespace:
                runner.objects_changed(names)


def offered(machine: Machine, instead: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """What the node has for pods."""
    found: dict[str, Quantity] = {
        "cpu": f"{machine.milli_cpus}m" if machine.milli_cpus % 1000 else str(machine.milli_cpus // 1000),
        "memory": f"{machine.memory // 1024}Ki",
        "ephemeral-storage": f"{machine.disk // 1024}Ki",
        "pods": str(DEFAULT_PODS),
    }
    counts = Counter(gpu.family.resource for gpu in machine.gpus)
    return found | {resource: str(count) for resource, count in counts.items()} | dict(instead)


def _not_ours(path: Path) -> str:
    return f"{path} is not the node's: it is left as it is".encode(errors="backslashreplace").decode()
