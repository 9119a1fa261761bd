"""Run one pod on this machine: execute the plans of `pod.machine.decide`, and hold the state that they need.

This module decides nothing. `step` gets a plan and starts its actions. Each action results in new facts and a call of
`wake`, after which the node calls `step` again. `restore` can recover the facts from disk at any time.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from muster.api.core import POD, Container, Pod
from muster.api.jobset import names
from muster.api.ours.usage import Usage
from muster.api.pods import FORGOTTEN_MESSAGE, job_uid, memory_limit, rank_of
from muster.api.status import ApiError
from muster.cluster.nodeconnection import GpuUse
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching, rights
from muster.cluster.nodes.container.checks import OUTPUT_BYTES, CheckFailedError, Target, run_hook
from muster.cluster.nodes.container.environment import Names, TooLongError, list_references
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.container.life import look_after
from muster.cluster.nodes.disk.complaints import describe_os_error
from muster.cluster.nodes.disk.storage import PodRecord
from muster.cluster.nodes.machine.consumption import Metered
from muster.cluster.nodes.machine.cpus import Reserved, list_demands
from muster.cluster.nodes.pod import restoring
from muster.cluster.nodes.pod.facts import (
    UNKNOWN,
    Action,
    Attempt,
    ContainerFacts,
    EndDecision,
    Exit,
    Kill,
    Now,
    PodFacts,
    PodNote,
    Prepare,
    Reserve,
    Start,
    Stop,
    Trouble,
)
from muster.cluster.nodes.pod.machine import PodPlan, decide
from muster.cluster.nodes.pod.rules import grace_seconds
from muster.cluster.nodes.pod.starts import HeldUpError, Starts
from muster.cluster.nodes.pod.status import INTERRUPTED_MESSAGE, SHUTDOWN_REASON
from muster.cluster.nodes.pod.volumerefresh import RETRY_SECONDS, RefreshedVolumes
from muster.cluster.nodes.shim.spec import ProgramSpec
from muster.cluster.nodes.shim.system import NOT_STARTED
from muster.cluster.nodes.shims import Shim
from muster.cluster.nodes.volumes.contents import VolumeError
from muster.cluster.nodes.volumes.sizes import charged_volumes
from muster.runtime.events.recorder import EventType
from muster.runtime.objects import make_reference, revision_of
from muster.runtime.transport import TransportError

# How long a shim may take to kill its container before the shim itself is killed.
SHIM_PATIENCE_SECONDS = 10.0
NO_VARIABLES: Mapping[str, str] = {}
# How long the report of a pod's status waits for a start that should take only a moment.
BEGIN_SECONDS = 0.1

log = logging.getLogger(__name__)


class PodRunner:
    """The runner of one pod, from its admission by the node until it has no process and no resource left."""

    def __init__(self, kit: Kit, pod: Pod, wake: Callable[[], None]) -> None:
        self.pod = pod
        self.storage = kit.storage.of(pod.metadata.uid)
        self._kit = kit
        self._wake = wake
        self._volumes = RefreshedVolumes(kit, lambda: self.pod, self._record_event, self._spawn)
        self._starts = Starts(kit, lambda: self.pod, self._volumes, self._record_event)
        self._containers: dict[str, ContainerFacts] = {}
        self._shims: dict[str, Shim] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._beginning: set[asyncio.Task[None]] = set()  # starts of reserved shims
        self._tasks: set[asyncio.Task[None]] = set()
        self._gpus: Mapping[str, tuple[str, ...]] = {}  # by container
        self._cpus: Mapping[str, Reserved] = {}  # by container
        self._peaks: dict[str, int] = {}  # the peak memory in samples, by container
        self._gpu_use: dict[str, GpuUse] = {}  # the last sample, by container
        self._gpu_total = Usage()  # the GPU use of all containers, from samples
        self._has_record = False  # the pod's record is on disk
        self._earlier_record: PodRecord | None = None  # the record that was on disk before
        self._prepared = False
        self._preparing = False
        self._trouble: Trouble | None = None
        self._ending: EndDecision | None = None
        self._is_released = False
        self.is_oversized = False  # the pod's status does not fit into its object
        self._deleting_since: float | None = None
        self._reported_notes: frozenset[PodNote] = frozenset()
        now = self._read_clock()
        self._start_time = pod.status.start_time or now.wall
        self._began_at = now.monotonic - max((now.wall - self._start_time).total_seconds(), 0.0)
        self._check_deletion()

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.pod.metadata.uid

    @property
    def address(self) -> str:
        """The IP address of the pod."""
        return self._kit.network.address(self.pod)

    @property
    def running(self) -> list[Shim]:
        """The shims of the pod's running containers."""
        return [self._shims[name] for name in self._watchers]

    def list_metered(self) -> Iterator[tuple[str, Metered]]:
        """Yield the running containers to measure, by name."""
        groups = self._kit.cgroups
        for name in self._watchers:
            paths = groups.paths(self.uid, name) if groups is not None else ()
            limit, volumes = memory_limit(self._find_container(name)), self._list_memory_volumes(name)
            yield name, Metered(self._shims[name].pid, paths, limit, volumes)

    def _list_memory_volumes(self, name: str) -> tuple[Path, ...]:
        """Return the tmpfs directories whose files count as a container's memory."""
        names = charged_volumes(self.pod).get(name, ())
        sources = self._volumes.volumes.sources() if names else {}
        return tuple(sources[volume] for volume in names if volume in sources)

    def peak(self, name: str) -> int:
        """Return the largest memory of a container in samples, in bytes; 0 without samples."""
        return self._peaks.get(name, 0)

    @property
    def sampled_usage(self) -> Usage:
        """The usage that samples measured: the largest memory of a container, and the total use of GPUs."""
        return Usage(0.0, max(self._peaks.values(), default=0)) + self._gpu_total

    def note_memory(self, name: str, used: int) -> None:
        """Record the memory of a container in a sample. used: the bytes."""
        self._peaks[name] = max(self._peaks.get(name, 0), used)

    @property
    def gpus(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the pod's GPUs, by container; empty after their release."""
        return {} if self._is_released else self._gpus

    def gpu_use(self, name: str) -> GpuUse | None:
        """Return a container's use of GPUs in the last sample; None without a sample."""
        return self._gpu_use.get(name)

    def note_gpu_use(self, name: str, use: GpuUse, seconds: float) -> None:
        """Record a container's use of GPUs in a sample. seconds: the time that the sample represents."""
        self._gpu_use[name] = use
        memory = sum(one.memory_bytes for one in self._gpu_use.values())
        self._gpu_total += Usage(gpu_seconds=use.milli_gpus / 1000 * seconds, gpu_memory_bytes=memory)

    def end_over_limit(self, name: str, pid: int, used: int) -> None:
        """Kill a container that uses more memory than its limit.

        pid: the PID of its shim when the memory was measured; nothing happens if the container has restarted since.
        used: the memory in bytes.
        """
        attempt = self._containers[name].attempt
        shim = self.shim(name)
        if shim is None or shim.pid != pid or attempt is None or attempt.killed:
            return
        self.note_memory(name, used)
        try:
            shim.note_excess(used)
        except OSError as error:  # a full disk loses the reason, but does not prevent the end
            message = f"The node cannot record that the container used {used} bytes: {describe_os_error(error)}"
            self._record_event("Warning", "OOMKilling", message, name)
        self._start_action(Kill(name))

    @property
    def holds(self) -> bool:
        """Whether the pod occupies resources of the node: it was not rejected, and has not released them yet."""
        rejected = self._ending is not None and self._ending.why == "rejected"
        return not (rejected or self._is_released)

    @property
    def is_ending(self) -> bool:
        """Whether the node itself terminates the pod."""
        return self._ending is not None

    def give_back(self) -> None:
        """Release the GPUs and CPUs of the pod, which must have no processes. Call it before its end is reported."""
        self._is_released = True
        self._kit.gpus.release(self.uid)
        if self._kit.cpus is not None:
            self._kit.cpus.release(self.uid)

    def accept(self) -> None:
        """Assign the GPUs and the CPUs that the pod requests, and write its record. Raises `NoGpusError`.

        While the disk is full, the pod waits, and its status says why.
        """
        gpu_counts = {c.name: n for c in self.pod.spec.containers if (n := launching.gpus_wanted(c))}
        self._gpus = self._kit.gpus.take(self.uid, gpu_counts) if gpu_counts else {}
        if self._kit.cpus is not None:
            self._cpus = self._kit.cpus.take(self.uid, list_demands(self.pod))
        try:
            self._write_record()
        except OSError as error:
            self._set_trouble("FailedCreatePodSandBox", f"Failed to create pod sandbox: {describe_os_error(error)}")

    def _write_record(self) -> None:
        """Write the pod's record before any other file of the pod, so that a restarted node finds the pod.

        Raises OSError.
        """
        meta = self.pod.metadata
        job = job_uid(self.pod)
        labels = meta.labels if job else {}
        created = meta.creation_timestamp.isoformat() if meta.creation_timestamp is not None else ""
        if job and self._kit.states is not None:
            self._kit.states.make(job, self._kit.account_of(self.pod))
        record_before = self._earlier_record = self.storage.read()
        self.storage.write(
            PodRecord(
                meta.namespace,
                meta.name,
                self.uid,
                self.address,
                self._gpus,
                job,
                rank=rank_of(self.pod),
                created=created,
                role=labels.get(names.REPLICATED_JOB_NAME, ""),
                job_index=labels.get(names.JOB_INDEX, ""),
                ended=record_before is not None and record_before.ended,
                cpus=self._cpus,
            )
        )
        self._has_record = True

    def restore(self) -> None:
        """Find the pod's containers that still run after a restart of the server, and how the others exited.

        Terminate the pod if it was interrupted.
        """
        now, record = self._read_clock(), self._earlier_record if self._has_record else self.storage.read()
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            restored = restoring.restore_container(self.pod, container, self.storage, now)
            self._containers[container.name] = restored.facts
            self._prepared = self._prepared or restored.facts.attempt is not None
            if restored.shim is not None:
                self._watch_shim(container, restored.shim, fresh=False, ready=restored.ready)
        if self._prepared:
            try:
                self._kit.network.enter(self.pod, self.storage.hosts)
            except OSError as error:  # the containers continue with their old file
                self._record_event(
                    "Warning", "FailedCreatePodSandBox", f"The hosts file cannot be updated: {describe_os_error(error)}"
                )
        if restoring.was_interrupted(self.pod, self._containers, record):
            grace, deleting = grace_seconds(self.pod), self._deleting_since is not None
            why = FORGOTTEN_MESSAGE if restoring.is_forgotten(record) and not deleting else INTERRUPTED_MESSAGE
            self.end(EndDecision("interrupted", now.monotonic, grace, SHUTDOWN_REASON, why))
        if self._shims:  # the objects in its volumes may have changed while no server was running
            self._volumes.soon_refresh()
            self._spawn(self._volumes.keep_tokens, "tokens")

    def update(self, pod: Pod) -> None:
        """Replace the pod's object by a newer version; ignore an older version.

        Terminate a pod that is being deleted.
        """
        if revision_of(pod) < revision_of(self.pod):
            return  # the object is older than the response to this node's own write
        relabelled = (pod.metadata.labels, pod.metadata.annotations) != (
            self.pod.metadata.labels,
            self.pod.metadata.annotations,
        )
        self.pod = pod
        self._check_deletion()
        if relabelled and self._prepared:
            self._volumes.soon_refresh()

    def objects_changed(self, changed: Names) -> None:
        """Refresh the volumes that show these ConfigMaps or Secrets, and retry containers that failed without them.

        changed: the names of the objects that were created, changed or deleted.
        """
        if self._prepared and changed & self._volumes.names:
            self._volumes.soon_refresh()
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            facts = self._containers.get(container.name, UNKNOWN)
            if facts.trouble is not None and changed & list_references(container):
                self._update_facts(container.name, trouble=replace(facts.trouble, retry_at=self._kit.clock.monotonic()))
        if self._trouble is not None and changed & self._volumes.names:
            self._trouble = replace(self._trouble, retry_at=self._kit.clock.monotonic())
            self._wake()

    def end(self, ending: EndDecision) -> None:
        """Terminate the pod for a reason of the node itself.

        A pod without processes has already finished, and its result stays as it is.
        """
        if ending.why == "gone" or (self._ending is None and not self._is_released):
            self._ending = ending
            if ending.why in ("gone", "shutdown"):
                self._record_deletion()
        self._wake()

    def end_oversized(self, *, over: bool) -> None:
        """Terminate a pod whose status does not fit into its object. Report only a short final status.

        over: whether the pod has terminated already.
        """
        self.is_oversized = True
        if not over:
            message = "The status of the pod does not fit into its object beside the rest of it"
            since = self._kit.clock.monotonic()
            self.end(EndDecision("oversized", since, grace_seconds(self.pod), "StatusTooLarge", message))

    def volume_sources(self) -> Mapping[str, Path]:
        """Return the directories of those volumes of the pod that are set up, by volume."""
        return self._volumes.volumes.sources()

    def evict(self, why: str) -> None:
        """Kill the pod, because it exceeds a limit of the machine. why: the message, in the kubelet's words."""
        self.end(EndDecision("evicted", self._kit.clock.monotonic(), 0.0, "Evicted", why))

    def step(self) -> PodPlan:
        """Decide the next actions, record the events of the plan, and start the actions; return the plan."""
        plan = decide(self.pod, self._make_facts(), self._read_clock())
        for note in sorted(plan.notes - self._reported_notes, key=lambda note: (note.container, note.reason)):
            self._record_event(note.type, note.reason, note.message, note.container)
        self._reported_notes = plan.notes
        for action in plan.actions:
            self._start_action(action)
        return plan

    async def wait_for_starts(self) -> bool:
        """Wait briefly for starts in progress of shims that were started in advance, to report their results at once.

        Return False if there are none.
        """
        if not self._beginning:
            return False
        await asyncio.wait(self._beginning, timeout=BEGIN_SECONDS)
        return True

    async def close(self) -> None:
        """Stop managing the pod, and leave its processes running."""
        tasks = [*self._tasks, *self._watchers.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for shim in self._shims.values():
            shim.close()
        self._starts.reserves.close()

    async def clean_up(self) -> None:
        """Release the pod's resources after its processes have exited. Its logs stay."""
        await self.close()
        self._kit.network.leave(self.uid)
        if self._kit.cgroups is not None:
            self._kit.cgroups.remove(self.uid)
        self._kit.remover.add(self.storage.remove_volumes())

    def _make_facts(self) -> PodFacts:
        seconds = self.pod.spec.active_deadline_seconds
        return PodFacts(
            containers=self._containers,
            prepared=self._prepared,
            trouble=self._trouble,
            start_time=self._start_time,
            deadline=None if seconds is None else self._began_at + seconds,
            deleting_since=self._deleting_since,
            ending=self._ending,
            address=self._kit.find_reported_address(self.pod),
            host_address=self._kit.host_address,
            devices={c.name: self._kit.gpus.health(self.uid, c.name) for c in self.pod.spec.containers},
        )

    def _check_deletion(self) -> None:
        if self.pod.metadata.deletion_timestamp is not None and self._deleting_since is None:
            self._deleting_since = self._kit.clock.monotonic()
            self._record_deletion()

    def _record_deletion(self) -> None:
        """Record on disk that the node terminates the pod.

        A server that starts from an older backup would not know that otherwise.
        """
        try:
            self.storage.mark_ended()
        except OSError as error:  # a full disk must not prevent the pod's end
            message = f"The node cannot record that the pod is asked to end: {describe_os_error(error)}"
            self._record_event("Warning", "FailedKillPod", message)

    def _start_action(self, action: Action) -> None:
        match action:
            case Prepare():
                if not self._preparing:
                    self._preparing = True
                    self._spawn(self._prepare, "prepare")
            case Reserve(name):
                self._containers[name] = replace(self._containers.get(name, UNKNOWN), reserved=True)
                make = partial(self._starts.reserves.make, self.pod, name, partial(self._is_waiting, name))
                self._spawn(make, f"reserve-{name}")
            case Start(name):
                self._update_facts(name, starting=True)
                task = self._spawn(partial(self._start, self._find_container(name), action), f"start-{name}")
                if name in self._starts.reserves:
                    self._beginning.add(task)
                    task.add_done_callback(self._beginning.discard)
            case Stop(name, why, grace):
                self._stop(self._find_container(name), why, grace)
            case Kill(name):
                self._update_attempt(name, killed=True)
                self._shims[name].end()
                self._spawn(partial(self._destroy_later, self._shims[name]), f"kill-{name}")

    async def _prepare(self) -> None:
        """Set up the volumes and the hosts file. Record a failure as the pod's trouble, which is retried later."""
        try:
            if not self._has_record:
                self._write_record()
            await self._volumes.put()
            self._kit.network.enter(self.pod, self.storage.hosts)
        except VolumeError as error:
            self._set_trouble("FailedMount", str(error))
        except (ApiError, TransportError) as error:
            self._set_trouble("FailedMount", f"cannot read the objects that the volumes show: {error}")
        except OSError as error:
            self._set_trouble("FailedCreatePodSandBox", f"Failed to create pod sandbox: {describe_os_error(error)}")
        except Exception as error:  # a bug here must not cause retries without a pause
            log.exception("pod %s could not be prepared", self.pod.metadata.name)
            self._set_trouble(
                "FailedCreatePodSandBox", f"Failed to create pod sandbox: {type(error).__name__}: {error}"
            )
        else:
            self._prepared, self._trouble = True, None
            self._spawn(self._volumes.keep_tokens, "tokens")
            self._warn_of_isolation()
        finally:
            self._preparing = False
            self._wake()

    def _set_trouble(self, reason: str, message: str) -> None:
        self._trouble = Trouble(reason, message, self._kit.clock.monotonic() + RETRY_SECONDS)

    def _warn_of_isolation(self) -> None:
        if not self._kit.isolation.is_complete:
            self._record_event("Warning", "NamespacesUnavailable", self._kit.isolation.warning())
        if lacking := rights.explain_unenforced(self.pod, self._kit.isolation):
            self._record_event("Warning", "SecurityContextNotEnforced", lacking)

    async def _start(self, container: Container, action: Start) -> None:
        """Start one attempt, and wait until it runs or its start has failed."""
        try:
            shim = await self._starts.begin(container, action.number)
        except TooLongError as error:
            self._record_refusal(container, action, str(error))
        except HeldUpError as error:
            trouble = Trouble(error.reason, str(error), self._kit.clock.monotonic() + RETRY_SECONDS)
            self._update_facts(container.name, starting=False, trouble=trouble)
        else:
            self._on_begun(container, action, shim)
        self._wake()

    def _is_waiting(self, name: str) -> bool:
        """Return whether the first attempt of a container has not started yet and still may start."""
        facts, ends = self._containers[name], self._ending is not None or self._deleting_since is not None
        return not ends and not facts.starting and facts.attempt is None

    def _record_refusal(self, container: Container, action: Start, why: str) -> None:
        """Record a start that failed before there was a shim, in the form in which a shim records a failed start."""
        now, name = self._read_clock(), launching.container_id(self.pod, container.name, action.number)
        exit = Exit(NOT_STARTED, "StartError", why, None, now.wall, now.monotonic, 0.0, name)
        self._record_attempt(container, action, Attempt(action.number, name, exit=exit))

    def _on_begun(self, container: Container, action: Start, shim: Shim | None) -> None:
        directory = self.storage.attempt(container.name, action.number)
        record = shims.read_record(directory)
        attempt = Attempt(
            action.number,
            launching.container_id(self.pod, container.name, action.number),
            restoring.started_at(record) if record else None,
        )
        if shim is None:
            exit = restoring.determine_exit(self.pod, container, directory, action.number, record, self._read_clock())
            attempt = replace(attempt, exit=exit)
        self._record_attempt(container, action, attempt)
        if shim is not None:
            self._watch_shim(container, shim, fresh=True, ready=False)

    def _record_attempt(self, container: Container, action: Start, attempt: Attempt) -> None:
        """Record the new attempt of a container, and an event that it started or could not start."""
        before = self._containers.get(container.name, UNKNOWN)
        previous = before.attempt.exit if before.attempt else None
        self._containers[container.name] = ContainerFacts(attempt, previous, action.restarts)
        if attempt.exit is not None and attempt.exit.reason == "StartError":
            self._record_event("Warning", "Failed", f"Error: {attempt.exit.message}", container.name)
        else:
            self._record_event("Normal", "Started", f"Started container {container.name}", container.name)

    def _watch_shim(self, container: Container, shim: Shim, *, fresh: bool, ready: bool) -> None:
        """Watch a running container for its exit, and run its hook and probes.

        fresh: whether the container was just started.
        ready: its last known readiness.
        """
        self._shims[container.name] = shim
        self._spawn(partial(self._watch, container, shim), f"watch-{container.name}")
        life = partial(
            look_after,
            self._make_target(container, shim),
            self._kit.clock,
            _Listener(self, container.name),
            fresh=fresh,
            ready=ready,
        )
        self._watchers[container.name] = asyncio.create_task(self._run_guarded(life, f"life-{container.name}"))

    async def _watch(self, container: Container, shim: Shim) -> None:
        """Wait until an attempt exits, and record its exit. If the shim was killed, kill the processes that it left."""
        record = await shim.wait_for_end()
        self._watchers.pop(container.name).cancel()
        if record is None:
            killed = await asyncio.to_thread(shims.kill_marked, launching.make_mark(self.uid, container.name).encode())
            log.warning("shim of container %s was killed, and left %d processes", container.name, killed)
        elif record.lost:
            message = f"{record.lost} lines of the log of container {container.name} were lost: the disk is full"
            self._record_event("Warning", "LogLinesLost", message, container.name)
        attempt = self._containers[container.name].attempt
        assert attempt is not None
        exit = restoring.determine_exit(self.pod, container, shim.directory, attempt.number, record, self._read_clock())
        self._update_attempt(container.name, exit=exit, ready=False)

    def shim(self, container: str) -> Shim | None:
        """Return the shim of a running container; None if the container does not run."""
        return self._shims.get(container) if container in self._watchers else None

    async def command(self, name: str, argv: Sequence[str], defaults: Mapping[str, str] = NO_VARIABLES) -> ProgramSpec:
        """Return a command to run in a container, with the rights of the container's own processes.

        Raises `ShimError`.
        """
        return await self._starts.command(self._find_container(name), argv, defaults)

    def _make_target(self, container: Container, shim: Shim) -> Target:
        async def run(argv: tuple[str, ...], timeout_seconds: float) -> tuple[int, bytes]:
            command = await self.command(container.name, argv)
            return await shims.run_inside(shim, command, timeout_seconds, OUTPUT_BYTES)

        return Target(container, self.address, run)

    def _stop(self, container: Container, why: str, grace_seconds: float) -> None:
        self._update_attempt(container.name, stopping_since=self._kit.clock.monotonic())
        self._record_event("Normal", "Killing", why, container.name)
        self._watchers[container.name].cancel()
        shim = self._shims[container.name]
        self._spawn(partial(self._ask_to_end, container, shim, grace_seconds), f"stop-{container.name}")

    async def _ask_to_end(self, container: Container, shim: Shim, grace_seconds: float) -> None:
        """Run the preStop hook, then send the stop signal.

        grace_seconds: the time limit for the hook; 0 skips it.
        """
        lifecycle = container.lifecycle
        if lifecycle is not None and lifecycle.pre_stop is not None and grace_seconds > 0:
            try:
                await run_hook(lifecycle.pre_stop, self._make_target(container, shim), self._kit.clock, grace_seconds)
            except CheckFailedError as error:
                self._record_event("Warning", "FailedPreStopHook", f"PreStopHook failed: {error}", container.name)
        name = (lifecycle and lifecycle.stop_signal) or "SIGTERM"
        shim.send(signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGTERM)

    async def _destroy_later(self, shim: Shim) -> None:
        await self._kit.clock.sleep(SHIM_PATIENCE_SECONDS)
        shim.destroy()

    def _find_container(self, name: str) -> Container:
        return next(c for c in (*self.pod.spec.init_containers, *self.pod.spec.containers) if c.name == name)

    def _update_facts(self, name: str, **changes: Any) -> None:
        self._containers[name] = replace(self._containers.get(name, UNKNOWN), **changes)
        self._wake()

    def _update_attempt(self, name: str, **changes: Any) -> None:
        attempt = self._containers[name].attempt
        assert attempt is not None, f"nothing of container {name} was begun"
        self._update_facts(name, attempt=replace(attempt, **changes))

    def _record_event(self, type: EventType, reason: str, message: str, container: str = "") -> None:
        part = ""
        if container:
            init = any(c.name == container for c in self.pod.spec.init_containers)
            part = f"spec.{'initContainers' if init else 'containers'}{{{container}}}"
        self._kit.recorder.event(make_reference(POD, self.pod, part), type, reason, message)

    def _read_clock(self) -> Now:
        return Now(self._kit.clock.now(), self._kit.clock.monotonic())

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._run_guarded(work, name), name=f"{self.pod.metadata.name}-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_guarded(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Await a coroutine and log its failure, so that other pods continue.

        work: makes the coroutine. This function calls it, because the task may be cancelled before it starts.
        """
        try:
            await work()
        except Exception:
            log.exception("pod %s: %s failed", self.pod.metadata.name, name)


class _Listener:
    """A receiver of the observations of one container, such as the results of its probes.

    It records the observations as facts and events of the pod.
    """

    def __init__(self, runner: PodRunner, container: str) -> None:
        self._runner = runner
        self._container = container

    def started(self, *, ready: bool) -> None:
        self._runner._update_attempt(self._container, started=True, ready=ready)  # noqa: SLF001 - two halves of one thing

    def readiness(self, *, ready: bool) -> None:
        self._runner._update_attempt(self._container, ready=ready)  # noqa: SLF001

    def condemned(self, why: str, grace_seconds: int | None) -> None:
        self._runner._update_attempt(self._container, condemned=why, condemned_grace_seconds=grace_seconds)  # noqa: SLF001

    def warn(self, reason: str, message: str) -> None:
        self._runner._record_event("Warning", reason, message, self._container)  # noqa: SLF001
