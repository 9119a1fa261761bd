"""Run the pods that are bound to one node of kind `process`, as processes of this machine.

The agent watches the pods through an informer, keeps a `PodRunner` for each, writes the status that the runner reports,
and renews the node's Lease. `pod/machine.py` decides what happens to a pod.

Everything that a restart of the server needs is on disk (`storage.py`, `shims.py`). A new server finds the containers
that the previous server left running. It resumes the pods whose objects still exist, and kills the other containers.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from muster.api.core import NAMESPACE, NODE, POD, ObjectReference, Pod
from muster.api.ours.embedded import SHORTAGE_ANNOTATION
from muster.api.ours.limits import LIMITS_ANNOTATION, describe_enforcement
from muster.api.ours.usage import USAGE_ANNOTATION, Usage
from muster.api.pods import SHUTDOWN_MESSAGE, is_finished
from muster.api.status import ApiError
from muster.api.values.quantity import Quantity, parse_amount
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
from muster.cluster.nodes.fence import Fence, can_take_pods, must_end_pod
from muster.cluster.nodes.gpukeeper import GpuKeeper
from muster.cluster.nodes.gpus.device import FAMILIES
from muster.cluster.nodes.gpus.finding import Health, NoAnswerError, choose_offered, discover, simulate_gpus
from muster.cluster.nodes.gpus.finding import Usage as GpuUsage
from muster.cluster.nodes.gpus.holding import Gpus, NoGpusError
from muster.cluster.nodes.heartbeat import Heartbeat
from muster.cluster.nodes.limitkeeper import LimitKeeper
from muster.cluster.nodes.machine import cgroups, cpus, isolation, machine
from muster.cluster.nodes.machine.cgroups import Cgroups
from muster.cluster.nodes.machine.cpus import Cpus
from muster.cluster.nodes.machine.isolation import Isolation
from muster.cluster.nodes.machine.machine import Machine
from muster.cluster.nodes.network.network import Network
from muster.cluster.nodes.node_object import LEASE_SECONDS
from muster.cluster.nodes.pod import admission, restoring
from muster.cluster.nodes.pod.facts import EndDecision
from muster.cluster.nodes.pod.machine import PodPlan
from muster.cluster.nodes.pod.rules import FENCED_MESSAGE, NODE_LOST_REASON
from muster.cluster.nodes.pod.runner import PodRunner
from muster.cluster.nodes.pod.status import SHUTDOWN_REASON, shorten_status
from muster.cluster.nodes.shownobjects import AllObjects, NamedObjects, ShownObjects
from muster.cluster.nodes.volumekeeper import VolumeKeeper
from muster.cluster.nodes.wire import pod_status_patch
from muster.cluster.tenancy import TenancyError, find_tenant, require_tenable
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of
from muster.runtime.process.accounts import Account
from muster.runtime.refusals import is_refusal
from muster.runtime.tasks import cancel
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# Pods are cheap here, but each needs at least a process and a shim.
DEFAULT_PODS = 500
# The maximum time that `stop` waits for pods to terminate; the manager's own limit is longer.
SHUTDOWN_SECONDS = 30.0
# Pods of a group start together: none of them waits for writes about the others.
_WORKERS = 64
_SWEEP_SECONDS = 10.0
# For a pod with more containers than this, changes are collected before a reconcile: this long for each container.
_FEW_CONTAINERS, _GATHER_SECONDS_PER_CONTAINER = 8, 0.002
# The interval at which the node checks its GPUs.
_GPU_SECONDS = 30.0
# The delay before the agent reconsiders a pod that it held back.
_HELD_SECONDS = 0.5
# How many times within a Lease the agent compares the time since the last renewal with the pods' tolerations.
_FENCE_LOOKS = 8

log = logging.getLogger(__name__)


class ProcessNode:
    """One node of kind `process`. A `Manager` runs it, after the `Network` that it joins.

    state: a directory that belongs to this node, the same after each restart.
    resources: quantities that the node offers instead of the machine's.
    share: the node's index, and the number of equal parts into which the machine is divided.
    outlive_server: whether containers continue after the server is killed, so that the next server finds them. A stop
    of the server ends them (see `leave_pods_running`). Otherwise they are killed whenever the server exits.
    defaults: environment variables (PATH, HOME) for pods that do not set them.
    states: the state directories of jobs, which outlive the jobs' pods; None if there are none.
    guest: the machine's identity if the node joins another cluster. Such a node reads only what RBAC lets a
    kubelet read, and deletes logs with their pods. Its fence (`fence.py`) kills pods after too long without the server.
    holder: the holder identity in the node's Lease; by default the node's name.
    lease_seconds: the duration of the Lease.
    port: the port of the node's HTTPS endpoint in its Node object; 0 says that it has none, None omits the field.
    disks: directories besides `state` whose disks need free space before another pod starts.
    find_account: returns the Unix account that runs a pod of a system server, or raises `AccountError`; None if the
    node's own user runs all pods.
    played_gpus: how many GPUs the node simulates instead of the machine's.
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
        holder: str = "",
        lease_seconds: int = LEASE_SECONDS,
        port: int | None = None,
        played_gpus: int = 0,
        disks: Sequence[Path] = (),
        find_account: Callable[[int], Account] | None = None,
    ) -> None:
        self.name = f"node-agent-{name}"
        self.node_name = name
        self.equipped = asyncio.Event()  # set once the machine's resources are known
        self.ready = asyncio.Event()  # set once the node is registered and accepts pods
        self.leave_pods_running = False
        self._manager = manager
        self._client, self._clock = manager.client, manager.clock
        self._recorder = recorder
        self._network = network
        self._state = state
        self._disks = (state, *disks)
        self._offered = resources or {}
        self._shortages: list[str] = []  # what the machine lacks of the offer, as sentences
        self._outlive_server = outlive_server
        self._defaults = defaults or {}
        self._states = states
        self._guest = guest
        self._holder, self._lease_seconds = holder, lease_seconds
        self._share, self._played_gpus = share, played_gpus
        self._host_address, self._port = host_address, port
        self._tried = tried
        self._find_account = find_account
        self._namespaces = manager.informer(NAMESPACE) if find_account is not None else None
        self._storage = Storage(state, shared=find_account is not None)
        self._remover = Remover(manager, self.name, self._on_removal_failed)
        self._probing: asyncio.Task[Isolation] | None = None
        self._kit: Kit | None = None
        self._lifeline: tuple[int, int] | None = None
        self._runners: dict[str, PodRunner] = {}
        past = Past(self._storage)
        self._log_keeper = Keeping(manager, name, self._storage, past, self._remover, states, guest=bool(guest))
        self.connection = Connection(Logs(self._storage, self._clock), past, self._runners, self._clock)
        self._gone_uids: dict[str, set[str]] = {}  # uids of pods whose objects are deleted, by key
        self._held_keys: set[str] = set()  # keys of pods that arrived while the server was unreachable
        self._ended_uids: dict[str, str] = {}  # uids of pods that have ended here, by key; the informer may be stale
        self._draining = False
        self._has_records = True  # whether a later server can find the pods
        self._drained = asyncio.Event()
        self._heartbeat: Heartbeat | None = None
        self.pods = network.pods
        self._controller = manager.controller(self.name, self._reconcile, workers=_WORKERS)
        self._controller.watch(self.pods, when=self._is_ours)
        self._shown_objects: ShownObjects = (NamedObjects if guest else AllObjects)(manager, self._on_objects_changed)
        self._earlier_records = self._storage.pods()  # the records of the previous server
        network.join(name, {each.uid: each.address for each in self._earlier_records if each.address and not each.gone})

    def start_isolation_trial(self) -> None:
        """Start a background task that tests how containers can be isolated, while the informers start.

        Raises RuntimeError if the kernel or Python lacks a system call that process nodes need.
        """
        processes.check_kernel()
        processes.adopt_orphans()
        self._probing = asyncio.create_task(self._probe_isolation(), name=f"{self.name}-isolation")

    async def end_isolation_trial(self) -> None:
        """Cancel the isolation test if it still runs, so that the node's directory can be removed."""
        if self._probing is not None:
            await cancel([self._probing])

    async def run(self) -> None:
        """Register the node, take over pods that still run here, and run the node's pods until `stop`."""
        if self._probing is None:
            self.start_isolation_trial()
        kit = self._kit = await self._prepare_kit()
        self.equipped.set()
        await self._resume_or_end_containers(kit)
        self._heartbeat = Heartbeat(
            self._client,
            self._clock,
            self.node_name,
            self._machine,
            kit.allocatable,
            self._disks,
            self._host_address,
            self._port,
            kit.gpus,
            self._guest,
            self._holder,
            self._lease_seconds,
            kit.fence,
            {LIMITS_ANNOTATION: self.enforcement} | ({SHORTAGE_ANNOTATION: self.shortage} if self.shortage else {}),
        )
        await self._heartbeat.register()
        for notice in (*self._storage.notices, *map(_describe_foreign, self._storage.foreign())):
            log.warning("%s: %s", self.node_name, notice)
            self._record_event("ForeignFiles", notice)
        if kit.cgroups is None:
            self._record_event("NoCgroups", f"limits are kept less strictly: {self.enforcement}")
        self.ready.set()
        side = self._start_side_tasks(kit, self._heartbeat)
        try:
            await self._controller.run()
        finally:
            await cancel(side)

    def _start_side_tasks(self, kit: Kit, heartbeat: Heartbeat) -> list[asyncio.Task[None]]:
        """Start the tasks that run beside the reconciles of pods, each named after the node."""
        coroutines = {
            "heartbeat": heartbeat.run(),
            "orphans": self._sweep_orphans(),
            "removal": self._remover.run(),
            "volumes": VolumeKeeper(self._runners, self._clock).run(),
        }
        if kit.gpus.devices:
            coroutines["gpus"] = self._watch_gpu_health(kit.gpus)
            coroutines["gpu-use"] = self._keep_gpus(kit.gpus).run()
        if kit.cgroups is None or not kit.cgroups.has("memory"):
            coroutines["limits"] = LimitKeeper(self._runners, self._clock).run()
        if kit.fence:
            coroutines["fence"] = self._apply_fence(heartbeat)
        return [asyncio.create_task(one, name=f"{self.name}-{name}") for name, one in coroutines.items()]

    async def stop(self) -> None:
        """Stop the node. Terminate its pods, unless they outlive the server and a later server can find them.

        Terminated pods fail as at a shutdown of the machine, with reason Terminated and condition DisruptionTarget.
        Pods of the server's own nodes also report that the whole cluster stops; a guest's cluster continues.
        """
        self._draining = True
        if self._heartbeat is not None:
            await self._heartbeat.report_shutdown()
        self._has_records = await asyncio.to_thread(self._state.exists)
        if not self._has_records:
            log.warning("%s was removed: its pods end, as no later server could find them", self._state)
        if not (self.leave_pods_running and self._has_records):
            how = (self._clock.monotonic(), SHUTDOWN_SECONDS, SHUTDOWN_REASON, SHUTDOWN_MESSAGE)
            ending = EndDecision("left", *how) if self._guest else EndDecision("shutdown", *how)
            for runner in self._runners.values():
                runner.end(ending)
            if self._runners:
                await self._drained.wait()
        await self._remover.stop()
        await self._controller.stop()
        for runner in self._runners.values():
            await runner.close()
        if self._kit is not None and self._kit.fence is not None:
            self._kit.fence.close()
        if self._kit is not None and self._kit.cgroups is not None:
            self._kit.cgroups.close()
        if self._lifeline is not None:
            for descriptor in self._lifeline:
                os.close(descriptor)
            self._lifeline = None

    @property
    def enforcement(self) -> str:
        """How the node enforces the resource limits of containers.

        The value is available only after the node has examined its machine.
        """
        assert self._kit is not None, "the node is equipped"
        groups = self._kit.cgroups
        controllers = [name for name in ("memory", "cpu") if groups is not None and groups.has(name)]
        return describe_enforcement(
            groups.version if groups is not None else 0, controllers, self._kit.no_cgroups_because
        )

    @property
    def shortage(self) -> str:
        """The resources that the node's options request and the machine lacks, for users; "" if it lacks none.

        An example is `0 of 2 nvidia.com/gpu: ...`.
        """
        return "; ".join(self._shortages)

    def _note_shortage(self, sentence: str) -> None:
        log.warning("%s: offers %s", self.node_name, sentence)
        self._shortages.append(sentence)

    async def _sweep_orphans(self) -> None:
        orphans = processes.Orphans()
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            orphans.sweep()

    async def _apply_fence(self, heartbeat: Heartbeat) -> None:
        """Check at intervals which pods the server may soon replace on another node, and terminate these pods.

        The shims later kill the pods that have not terminated.
        """
        while True:
            await self._clock.sleep(self._lease_seconds / _FENCE_LOOKS)
            now = self._clock.monotonic()
            silent = heartbeat.silent_seconds()
            for key, runner in self._runners.items():
                if runner.holds and not runner.is_ending and must_end_pod(runner.pod, silent, self._lease_seconds):
                    log.warning(
                        "%s: the server was not reached for %d s: pod %s is asked to end", self.node_name, silent, key
                    )
                    runner.end(EndDecision("fenced", now, self._lease_seconds / 2, NODE_LOST_REASON, FENCED_MESSAGE))

    async def _find_machine(self) -> Machine:
        """Return the resources of the machine that the node may use.

        If the GPU driver does not answer, log that and offer no GPUs.
        """
        share = self._share
        if self._played_gpus:
            part = machine.take_part(machine.discover(self._state), *share)
            return replace(part, gpus=simulate_gpus(self._played_gpus))
        try:
            gpus = await discover()
        except NoAnswerError as error:
            self._note_shortage(f"no GPUs: {error}")
            gpus = ()
        return machine.take_part(machine.discover(self._state, gpus), *share)

    async def _watch_gpu_health(self, gpus: Gpus) -> None:
        """Check the GPUs at intervals: assign unhealthy ones to no new pod, and reconcile all pods after a change."""
        health = Health(list(gpus.devices.values()), self._state)
        while True:
            try:
                problems = await health.problems()
            except (NoAnswerError, OSError) as error:
                problems = dict.fromkeys(gpus.devices, f"how it is cannot be found out: {error}")
            if problems != gpus.ill:
                for name, trouble in problems.items() - gpus.ill.items():
                    self._record_event("GPUIll", f"GPU {name}: {trouble}; no pod gets it until it is healthy")
                gpus.ill = problems
                for key in self._runners:
                    self._controller.queue.add(key)
            await self._clock.sleep(_GPU_SECONDS)

    def _keep_gpus(self, gpus: Gpus) -> GpuKeeper:
        return GpuKeeper(self._runners, GpuUsage(list(gpus.devices.values()), self._state), self._clock)

    async def _prepare_kit(self) -> Kit:
        """Examine the machine, make the node's control groups and lifeline, and return what all its pods share.

        Also report offered resources that the machine lacks.
        """
        self._machine = await self._find_machine()
        offers = {resource: parse_amount(resource, quantity) for resource, quantity in self._offered.items()}
        allocatable = list_offered_resources(self._machine, self._offered)
        for resource in (one for one in offers if parse_amount(one, allocatable[one]) < offers[one]):
            wanted = self._offered[resource]
            self._note_shortage(f"{allocatable[resource]} of {wanted} {resource}: the machine has no more")
        assert self._probing is not None, "the node has begun"
        isolated = await self._probing
        groups = cgroups.prepare(cgroups.name_group(self.node_name, seed_of(self._state)))
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
            gpus=Gpus(choose_offered(self._machine.gpus, offers)),
            isolation=isolated,
            allocatable=allocatable,
            host_address=self._host_address,
            cpus=None if isinstance(groups, Cgroups) and groups.has("cpu") else self._find_cpus(),
            cgroups=None if isinstance(groups, str) else groups,
            no_cgroups_because=groups if isinstance(groups, str) else "",
            lifeline=self._lifeline[0] if self._lifeline else -1,
            defaults=self._defaults,
            states=self._states,
            guest=bool(self._guest),
            fence=Fence(self._state) if self._guest else None,
            accounts={} if self._find_account is not None else None,
        )

    def _find_cpus(self) -> Cpus:
        return Cpus(cpus.select_part(os.sched_getaffinity(0), *self._share))

    async def _probe_isolation(self) -> Isolation:
        """Return the strongest isolation of pods that works on this machine; log a warning if it is incomplete.

        Raises `IsolationError` if accounts cannot be isolated from each other.
        """
        scratch = self._storage.scratch()
        isolated = await self._try_isolation(scratch)
        self._remover.add([scratch])
        if not isolated.is_complete:
            log.warning("%s: %s", self.node_name, isolated.warning())
        return isolated

    async def _try_isolation(self, scratch: Path) -> Isolation:
        """Return the strongest isolation that works. scratch: a directory for the attempts.

        Raises `IsolationError` if pods run as their users' accounts and every isolation that works is incomplete.
        """
        if self._find_account is None:
            return await isolation.probe(scratch, self._tried)
        isolated = await isolation.probe(scratch, isolation.candidates_of_accounts(), isolation.NOBODY)
        if not isolated.is_complete:
            raise isolation.IsolationError(
                f"--system needs user namespaces for every user, and a user without rights gets none here "
                f"({isolated.problem}): see kernel.unprivileged_userns_clone, user.max_user_namespaces and "
                "kernel.apparmor_restrict_unprivileged_userns"
            )
        return isolated

    async def _resume_or_end_containers(self, kit: Kit) -> None:
        """Resume the pods that ran here before a restart, kill containers without a pod, and remove leftover files."""
        ours = {pod.metadata.uid: pod for pod in self.pods.all() if pod.spec.node_name == self.node_name}
        records = [record for record in self._earlier_records if not self._log_keeper.keeps_logs(record)]
        self._earlier_records.clear()
        running = {uid for uid, pod in ours.items() if not is_finished(pod)}
        orphans = [record for record in records if record.uid not in running]
        await asyncio.gather(*(self._end_orphan(kit, record, forget=record.uid not in ours) for record in orphans))
        for record in records:
            if record.uid in running:
                kit.gpus.restore(record.uid, record.gpus)
                if kit.cpus is not None:
                    kit.cpus.restore(record.uid, record.cpus)
        recorded_uids = {record.uid for record in records}
        for uid in running:
            pod = ours[uid]
            if uid in recorded_uids or pod.status.container_statuses:
                await self._resume_pod(kit, pod)
        self._remover.add(self._storage.left_over())
        self._log_keeper.tidy()

    async def _resume_pod(self, kit: Kit, pod: Pod) -> None:
        """Resume a pod after a restart. If its state cannot be determined, kill it, so that it never runs twice."""
        try:
            self._admit_pod(kit, pod).restore()
        except Exception as error:
            log.exception("%s: pod %s cannot be resumed", self.node_name, key_of(pod))
            await end_pod(self._storage, pod.metadata.uid)
            why = f"The node cannot resume the pod after a restart: {error}"
            runner = self._runners[key_of(pod)] = self._make_runner(kit, pod)
            runner.end(EndDecision("rejected", self._clock.monotonic(), 0.0, "UnexpectedAdmissionError", why))

    async def _end_orphan(self, kit: Kit, record: PodRecord, *, forget: bool) -> None:
        """Kill the containers of a pod that is finished or deleted, and remove its volumes.

        forget: whether the pod is deleted, so that its other files are removed, too, except logs that are kept.
        """
        if count := await end_pod(self._storage, record.uid):
            log.info("%s: ended %d containers of pod %s/%s", self.node_name, count, record.namespace, record.name)
        if kit.cgroups is not None:
            kit.cgroups.remove(record.uid)
        if forget:
            self._network.forget(record.uid)
        storage = self._storage.of(record.uid)
        self._remover.add(self._log_keeper.let_go(record) if forget else storage.remove_volumes())

    async def _reconcile(self, key: str) -> Result:
        """Bring one pod of this node a step further; return the seconds until its next reconcile, or None.

        A pod is started only if the node is not draining and can accept pods.
        """
        kit = self._kit
        assert kit is not None, "the controller runs once the node is equipped"
        pod = self.pods.get(key)
        runner = self._runners.get(key)
        if runner is not None and (pod is None or pod.metadata.uid != runner.uid):
            runner.end(EndDecision("gone", self._clock.monotonic(), 0.0))
            return await self._step_pod(key, runner)
        for uid in self._gone_uids.pop(key, ()):
            self._network.forget(uid)
            self._log_keeper.forget(uid)
        if pod is None or pod.spec.node_name != self.node_name:
            self._ended_uids.pop(key, None)
            self._held_keys.discard(key)
            return None
        if runner is not None:
            runner.update(pod)
            return await self._step_pod(key, runner)
        if is_finished(pod) or self._ended_uids.get(key) == pod.metadata.uid:
            if pod.metadata.deletion_timestamp is not None:
                await self._delete_pod(pod)
            return None
        if self._draining:
            return None
        if not self._can_take_pods():
            self._held_keys.add(key)
            return _HELD_SECONDS
        if key in self._held_keys and (pod := await self._reread_pod(key, pod)) is None:
            return None
        return await self._step_pod(key, self._admit_pod(kit, pod))

    def _can_take_pods(self) -> bool:
        """Return whether a pod that starts now gets its full time before the node's fence terminates it."""
        heartbeat = self._heartbeat
        if heartbeat is None or not self._guest:
            return True
        return can_take_pods(heartbeat.silent_seconds(), self._lease_seconds)

    async def _reread_pod(self, key: str, pod: Pod) -> Pod | None:
        """Read a pod again that was held back while the server was unreachable; None if the node must not run it.

        The server may have replaced the pod meanwhile, and the watch may not show that yet. Raises `ApiError`.
        """
        present = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
        self._held_keys.discard(key)
        if present is None or present.metadata.uid != pod.metadata.uid or is_finished(present):
            return None
        return present

    def _admit_pod(self, kit: Kit, pod: Pod) -> PodRunner:
        """Admit a pod, or reject one that does not fit; return its runner in both cases."""
        others = [other.pod for other in self._runners.values() if other.holds]
        rejection = admission.check(pod, others, kit.allocatable)
        if rejection is None and kit.accounts is not None:
            rejection = self._admit_tenant(kit.accounts, pod)
        runner = self._make_runner(kit, pod)
        if rejection is None:
            try:
                runner.accept()
            except NoGpusError as error:
                rejection = admission.make_unavailable_rejection(str(error))
        if rejection is not None:
            runner.end(EndDecision("rejected", self._clock.monotonic(), 0.0, rejection.reason, rejection.message))
        self._runners[key_of(pod)] = runner
        self._shown_objects.enter(pod)
        return runner

    def _admit_tenant(self, accounts: dict[str, Account], pod: Pod) -> admission.Rejection | None:
        """Record the Unix account that the pod runs as, or return the rejection of a pod that cannot run as one."""
        assert self._find_account is not None
        assert self._namespaces is not None
        namespace = pod.metadata.namespace
        try:
            account = find_tenant(self._namespaces.get(namespace), namespace, self._find_account)
            require_tenable(pod.spec, account)
        except TenancyError as error:
            return admission.make_unavailable_rejection(str(error))
        accounts[pod.metadata.uid] = account
        return None

    def _make_runner(self, kit: Kit, pod: Pod) -> PodRunner:
        key, gathering = key_of(pod), _compute_gathering_seconds(pod)
        return PodRunner(kit, pod, wake=lambda: self._controller.queue.add_after(key, gathering))

    async def _step_pod(self, key: str, runner: PodRunner) -> Result:
        """Reconcile a pod: start or stop containers, write the status, and clean up after the pod has terminated."""
        plan = runner.step()
        if await runner.wait_for_starts():
            plan = runner.step()
        if plan.over or plan.status.phase in ("Succeeded", "Failed"):
            runner.give_back()
        try:
            is_deleted = not await self._write_status(runner, plan)
        except ApiError as error:
            if not _is_too_large(error):
                raise
            if not runner.is_oversized:
                runner.end_oversized(over=plan.over)
                return 0.0
            log.warning("%s: pod %s is deleted: not even its final status fits into its object", self.node_name, key)
            await self._delete_pod(runner.pod)
            is_deleted = True
        if plan.remove and not is_deleted:
            await self._delete_pod(runner.pod)
        if is_deleted and not plan.over:
            runner.end(EndDecision("gone", self._clock.monotonic(), 0.0))
        if plan.over:
            await runner.clean_up()
            del self._runners[key]
            if self._kit is not None and self._kit.accounts is not None:
                self._kit.accounts.pop(runner.uid, None)
            self._shown_objects.leave(runner.uid)
            self._ended_uids[key] = runner.uid
            if self._draining and not self._runners:
                self._drained.set()
            return 0.0  # there may be a new pod of the same name
        return plan.look_again_in

    async def _write_status(self, runner: PodRunner, plan: PodPlan) -> bool:
        """Write the pod's status if it changed; return False if the pod's object no longer exists.

        Also return False if the node stops and the server cannot store the final status. Raises `ApiError`.
        """
        patch = _make_status_patch(runner, plan)
        if patch is None:
            return True
        if plan.over and not runner.is_oversized and (used := _measure_use(runner)) != Usage():
            patch["metadata"] = {"annotations": {USAGE_ANNOTATION: str(used)}}
        try:
            written = await self._client.patch_object(
                POD, runner.pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
        except ApiError as error:
            # A stop does not wait for room on the server's disk, because the pod's records show how it ended. Without
            # records the server's store is likely gone, too.
            is_lost = is_refusal(error, "InsufficientStorage") or not self._has_records
            if not (self._draining and plan.over and is_lost):
                await self._raise_unless_gone(runner.pod, error)
            return False
        runner.update(written)
        return True

    async def _delete_pod(self, pod: Pod) -> None:
        """Delete the object of a pod whose containers have terminated."""
        try:
            await self._client.delete_object(POD, pod, grace_period_seconds=0)
        except ApiError as error:
            await self._raise_unless_gone(pod, error)

    async def _raise_unless_gone(self, pod: Pod, error: ApiError) -> None:
        """Raise an API error again, unless the pod no longer exists. A conflict may have other causes."""
        if is_refusal(error, "NotFound"):
            return
        if is_refusal(error, "Conflict"):
            present = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if present is None or present.metadata.uid != pod.metadata.uid:
                return
        raise error

    def _on_removal_failed(self, message: str) -> None:
        self._record_event("FailedRemoval", message)

    def _record_event(self, reason: str, message: str) -> None:
        """Record a warning event about the Node. Like the kubelet, use the node's name as the UID."""
        node = ObjectReference(kind=NODE.kind, api_version=NODE.api_version, name=self.node_name, uid=self.node_name)
        self._recorder.event(node, "Warning", reason, message)

    def _is_ours(self, old: Pod | None, new: Pod | None) -> bool:
        ours = [pod for pod in (old, new) if pod is not None and pod.spec.node_name == self.node_name]
        if new is None and old is not None and ours:
            self._gone_uids.setdefault(key_of(old), set()).add(old.metadata.uid)
        return bool(ours)

    def _on_objects_changed(self, namespace: str, names: Names) -> None:
        for runner in self._runners.values():
            if runner.pod.metadata.namespace == namespace:
                runner.objects_changed(names)


def list_offered_resources(machine: Machine, instead: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return the resources that the node offers to pods.

    instead: quantities that replace or extend the machine's own quantities. A quantity of GPUs is capped at the
    machine's number, because the node would reject pods that request more.
    """
    resources: dict[str, Quantity] = {
        "cpu": f"{machine.milli_cpus}m" if machine.milli_cpus % 1000 else str(machine.milli_cpus // 1000),
        "memory": f"{machine.memory // 1024}Ki",
        "ephemeral-storage": f"{machine.disk // 1024}Ki",
        "pods": str(DEFAULT_PODS),
    }
    counts = Counter(gpu.family.resource for gpu in machine.gpus)
    limited = {
        family.resource: str(counts[family.resource])
        for family in FAMILIES
        if parse_amount(family.resource, instead.get(family.resource, "0")) > counts[family.resource]
    }
    return resources | {resource: str(count) for resource, count in counts.items()} | dict(instead) | limited


def _make_status_patch(runner: PodRunner, plan: PodPlan) -> dict[str, Any] | None:
    """Return the patch of the pod's status; None if nothing changed.

    If the full status is too large for the object, the patch contains only a short final status, and a running pod gets
    none.
    """
    if not runner.is_oversized:
        return pod_status_patch(runner.pod, plan.status)
    return pod_status_patch(runner.pod, shorten_status(plan.status)) if plan.over else None


def _measure_use(runner: PodRunner) -> Usage:
    """Return the resources that a terminated pod used, from the records of its shims and from samples."""
    return restoring.sum_recorded_usage(runner.pod, runner.storage) + runner.sampled_usage


def _is_too_large(error: ApiError) -> bool:
    """Return whether an error says that the object would be too large for its server, or for etcd behind it."""
    return is_refusal(error, "RequestEntityTooLarge") or (error.code == 500 and "request is too large" in str(error))


def _compute_gathering_seconds(pod: Pod) -> float:
    """Return for how many seconds to collect changes of a pod before the next reconcile.

    A reconcile costs time for each container of the pod.
    """
    count = len(pod.spec.containers) + len(pod.spec.init_containers)
    return count * _GATHER_SECONDS_PER_CONTAINER if count > _FEW_CONTAINERS else 0.0


def _describe_foreign(path: Path) -> str:
    return f"{path} does not belong to the node, which leaves it as it is".encode(errors="backslashreplace").decode()
