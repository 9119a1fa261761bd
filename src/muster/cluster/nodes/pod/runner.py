"""Runs one pod on this machine: carries out what `pod.machine.decide` says, and keeps the facts that it asks for.

Nothing in here decides. `step` asks for a plan and sets its actions going; each of them ends in new facts and a call of
`wake`, upon which the node calls `step` again. The facts can be had again from disk at any time (`restore`).
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from muster.api.core import POD, Container, Pod
from muster.api.jobset import names
from muster.api.pods import job_uid, rank_of
from muster.api.status import ApiError
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching, rights
from muster.cluster.nodes.container.checks import OUTPUT_BYTES, CheckFailedError, Target, hook
from muster.cluster.nodes.container.environment import Names, TooLongError, references
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.container.life import look_after
from muster.cluster.nodes.disk.storage import PodRecord
from muster.cluster.nodes.pod import restoring
from muster.cluster.nodes.pod.facts import (
    UNKNOWN,
    Action,
    Attempt,
    ContainerFacts,
    Ending,
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
from muster.cluster.nodes.pod.shown import RETRY_SECONDS, Shown
from muster.cluster.nodes.pod.starts import HeldUpError, Starts, words
from muster.cluster.nodes.shim.spec import Command
from muster.cluster.nodes.shim.system import NOT_STARTED
from muster.cluster.nodes.shims import Shim
from muster.cluster.nodes.volumes.contents import VolumeError
from muster.runtime.events.recorder import EventType
from muster.runtime.objects import reference, revision_of
from muster.runtime.transport import TransportError

# A shim that was told to end everything and has not by then is killed itself.
SHIM_PATIENCE_SECONDS = 10.0
NO_VARIABLES: Mapping[str, str] = {}
# For so long a start that takes but a moment is waited for before it is said how the pod does.
BEGIN_SECONDS = 0.1

log = logging.getLogger(__name__)


class PodRunner:
    """One pod, from the time the node takes it until nothing of it runs."""

    def __init__(self, kit: Kit, pod: Pod, wake: Callable[[], None]) -> None:
        self.pod = pod
        self.storage = kit.storage.of(pod.metadata.uid)
        self._kit = kit
        self._wake = wake
        self._shown = Shown(kit, lambda: self.pod, self._event, self._spawn)
        self._starts = Starts(kit, lambda: self.pod, self._shown, self._event)
        self._containers: dict[str, ContainerFacts] = {}
        self._shims: dict[str, Shim] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._beginning: set[asyncio.Task[None]] = set()  # starts of shims that are there
        self._tasks: set[asyncio.Task[None]] = set()
        self._gpus: Mapping[str, tuple[str, ...]] = {}  # by container
        self._written = False  # whose it is, on the disk
        self._prepared = False
        self._preparing = False
        self._trouble: Trouble | None = None
        self._ending: Ending | None = None
        self._gave_back = False
        self._deleting_since: float | None = None
        self._told: frozenset[PodNote] = frozenset()
        now = self._now()
        self._start_time = pod.status.start_time or now.wall
        self._began = now.monotonic - max((now.wall - self._start_time).total_seconds(), 0.0)
        self._see_deletion()

    @property
    def uid(self) -> str:
        """Which pod this is."""
        return self.pod.metadata.uid

    @property
    def address(self) -> str:
        """Where its ports are."""
        return self._kit.network.address(self.pod)

    @property
    def running(self) -> list[Shim]:
        """What runs of its containers."""
        return [self._shims[name] for name in self._lives]

    @property
    def holds(self) -> bool:
        """Whether the pod has something of the node: it was let in, and something of it may still run."""
        rejected = self._ending is not None and self._ending.why == "rejected"
        return not (rejected or self._gave_back)

    def give_back(self) -> None:
        """Nothing of the pod runs any more: others may have what it had, before it is said that it has ended."""
        self._gave_back = True
        self._kit.gpus.release(self.uid)

    def accept(self) -> None:
        """Take the GPUs it asks for, and write down that the pod is here. Raises `NoGpusError`.

        While the disk is full the pod waits, and says why.
        """
        wanted = {c.name: n for c in self.pod.spec.containers if (n := launching.gpus_wanted(c))}
        self._gpus = self._kit.gpus.take(self.uid, wanted) if wanted else {}
        try:
            self._write_down()
        except OSError as error:
            self._hold_up("FailedCreatePodSandBox", f"Failed to create pod sandbox: {words(error)}")

    def _write_down(self) -> None:
        """Before anything is made for the pod, so that a node that comes back finds whose it was. Raises OSError."""
        meta = self.pod.metadata
        job = job_uid(self.pod)
        labels = meta.labels if job else {}
        created = meta.creation_timestamp.isoformat() if meta.creation_timestamp is not None else ""
        if job and self._kit.states is not None:
            self._kit.states.make(job)
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
            )
        )
        self._written = True

    def restore(self) -> None:
        """Find what runs of the pod already, and how the rest ended."""
        now = self._now()
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            found = restoring.container(self.pod, container, self.storage, now)
            self._containers[container.name] = found.facts
            self._prepared = self._prepared or found.facts.attempt is not None
            if found.shim is not None:
                self._attend(container, found.shim, fresh=False, ready=found.ready)
        if self._prepared:
            try:
                self._kit.network.enter(self.pod, self.storage.hosts)
            except OSError as error:  # its containers run, and have the file that they had
                self._event("Warning", "FailedCreatePodSandBox", f"The hosts file cannot be kept: {words(error)}")
        if self._shims:  # what its volumes show may have changed while no server was here
            self._shown.soon_refresh()
            self._spawn(self._shown.keep_tokens, "tokens")

    def update(self, pod: Pod) -> None:
        """The object has changed."""
        if revision_of(pod) < revision_of(self.pod):
            return  # older than what our own write returned
        relabelled = (pod.metadata.labels, pod.metadata.annotations) != (
            self.pod.metadata.labels,
            self.pod.metadata.annotations,
        )
        self.pod = pod
        self._see_deletion()
        if relabelled and self._prepared:
            self._shown.soon_refresh()

    def objects_changed(self, changed: Names) -> None:
        """ConfigMaps or Secrets that the pod may refer to have changed, come or gone."""
        if self._prepared and changed & self._shown.names:
            self._shown.soon_refresh()
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            facts = self._containers.get(container.name, UNKNOWN)
            if facts.trouble is not None and changed & references(container):
                self._set(container.name, trouble=replace(facts.trouble, retry_at=self._kit.clock.monotonic()))
        if self._trouble is not None and changed & self._shown.names:
            self._trouble = replace(self._trouble, retry_at=self._kit.clock.monotonic())
            self._wake()

    def end(self, ending: Ending) -> None:
        """The node ends the pod."""
        if self._ending is None or ending.why == "gone":
            self._ending = ending
            self._wake()

    def step(self) -> PodPlan:
        """See what is to be done, and set it going."""
        plan = decide(self.pod, self._facts(), self._now())
        for note in sorted(plan.notes - self._told, key=lambda note: (note.container, note.reason)):
            self._event(note.type, note.reason, note.message, note.container)
        self._told = plan.notes
        for action in plan.actions:
            self._do(action)
        return plan

    async def begun(self) -> bool:
        """Wait for starts that take but a moment, to say at once what comes of them; whether there were any."""
        if not self._beginning:
            return False
        await asyncio.wait(self._beginning, timeout=BEGIN_SECONDS)
        return True

    async def close(self) -> None:
        """Stop looking after the pod; what runs goes on running."""
        tasks = [*self._tasks, *self._lives.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for shim in self._shims.values():
            shim.close()
        self._starts.reserves.close()

    async def clean_up(self) -> None:
        """Nothing runs any more: give back what the pod had. Its logs stay."""
        await self.close()
        self._kit.network.leave(self.uid)
        if self._kit.cgroups is not None:
            self._kit.cgroups.remove(self.uid)
        self._kit.remover.add(self.storage.remove_volumes())

    def _facts(self) -> PodFacts:
        seconds = self.pod.spec.active_deadline_seconds
        return PodFacts(
            containers=self._containers,
            prepared=self._prepared,
            trouble=self._trouble,
            start_time=self._start_time,
            deadline=None if seconds is None else self._began + seconds,
            deleting_since=self._deleting_since,
            ending=self._ending,
            address=self._kit.told_address(self.pod),
            host_address=self._kit.host_address,
            devices={c.name: self._kit.gpus.health(self.uid, c.name) for c in self.pod.spec.containers},
        )

    def _see_deletion(self) -> None:
        if self.pod.metadata.deletion_timestamp is not None and self._deleting_since is None:
            self._deleting_since = self._kit.clock.monotonic()

    def _do(self, action: Action) -> None:
        match action:
            case Prepare():
                if not self._preparing:
                    self._preparing = True
                    self._spawn(self._prepare, "prepare")
            case Reserve(name):
                self._containers[name] = replace(self._containers.get(name, UNKNOWN), reserved=True)
                self._spawn(partial(self._starts.reserves.make, name, partial(self._waits, name)), f"reserve-{name}")
            case Start(name):
                self._set(name, starting=True)
                task = self._spawn(partial(self._start, self._container(name), action), f"start-{name}")
                if name in self._starts.reserves:
                    self._beginning.add(task)
                    task.add_done_callback(self._beginning.discard)
            case Stop(name, why, grace):
                self._stop(self._container(name), why, grace)
            case Kill(name):
                self._attempt(name, killed=True)
                self._shims[name].end()
                self._spawn(partial(self._insist, self._shims[name]), f"kill-{name}")

    async def _prepare(self) -> None:
        """Volumes and the hosts file."""
        try:
            if not self._written:
                self._write_down()
            await self._shown.put()
            self._kit.network.enter(self.pod, self.storage.hosts)
        except VolumeError as error:
            self._hold_up("FailedMount", str(error))
        except (ApiError, TransportError) as error:
            self._hold_up("FailedMount", f"cannot read the objects that the volumes show: {error}")
        except OSError as error:
            self._hold_up("FailedCreatePodSandBox", f"Failed to create pod sandbox: {words(error)}")
        except Exception as error:  # a bug of ours must not have the pod prepared again and again without a pause
            log.exception("pod %s could not be prepared", self.pod.metadata.name)
            self._hold_up("FailedCreatePodSandBox", f"Failed to create pod sandbox: {type(error).__name__}: {error}")
        else:
            self._prepared, self._trouble = True, None
            self._spawn(self._shown.keep_tokens, "tokens")
            self._warn_of_what_lacks()
        finally:
            self._preparing = False
            self._wake()

    def _hold_up(self, reason: str, message: str) -> None:
        self._trouble = Trouble(reason, message, self._kit.clock.monotonic() + RETRY_SECONDS)

    def _warn_of_what_lacks(self) -> None:
        limited = any({"cpu", "memory"} & c.resources.limits.keys() for c in self.pod.spec.containers)
        if not self._kit.isolation.complete:
            self._event("Warning", "NamespacesUnavailable", self._kit.isolation.warning())
        elif limited and self._kit.cgroups is None:
            why = f"CPU and memory limits are not enforced on this node: {self._kit.no_cgroups_because}"
            self._event("Warning", "LimitsNotEnforced", why)
        if lacking := rights.lacking(self.pod, self._kit.isolation):
            self._event("Warning", "SecurityContextNotEnforced", lacking)

    async def _start(self, container: Container, action: Start) -> None:
        """One attempt, up to where it runs or is known not to."""
        try:
            shim = await self._starts.begin(container, action.number)
        except TooLongError as error:
            self._cannot_begin(container, action, str(error))
        except HeldUpError as error:
            trouble = Trouble(error.reason, str(error), self._kit.clock.monotonic() + RETRY_SECONDS)
            self._set(container.name, starting=False, trouble=trouble)
        else:
            self._has_begun(container, action, shim)
        self._wake()

    def _waits(self, name: str) -> bool:
        """Whether the first attempt of a container is still to come."""
        facts, ends = self._containers[name], self._ending is not None or self._deleting_since is not None
        return not ends and not facts.starting and facts.attempt is None

    def _cannot_begin(self, container: Container, action: Start, why: str) -> None:
        """What a shim would say whose program the kernel refuses, without one."""
        now, name = self._now(), launching.container_id(self.pod, container.name, action.number)
        exit = Exit(NOT_STARTED, "StartError", why, None, now.wall, now.monotonic, 0.0, name)
        self._now_is(container, action, Attempt(action.number, name, exit=exit))

    def _has_begun(self, container: Container, action: Start, shim: Shim | None) -> None:
        directory = self.storage.attempt(container.name, action.number)
        record = shims.read_record(directory)
        attempt = Attempt(
            action.number,
            launching.container_id(self.pod, container.name, action.number),
            restoring.started_at(record) if record else None,
        )
        if shim is None:
            exit = restoring.exit_of(self.pod, container, directory, action.number, record, self._now())
            attempt = replace(attempt, exit=exit)
        self._now_is(container, action, attempt)
        if shim is not None:
            self._attend(container, shim, fresh=True, ready=False)

    def _now_is(self, container: Container, action: Start, attempt: Attempt) -> None:
        """An attempt has been made."""
        before = self._containers.get(container.name, UNKNOWN)
        previous = before.attempt.exit if before.attempt else None
        self._containers[container.name] = ContainerFacts(attempt, previous, action.restarts)
        if attempt.exit is not None and attempt.exit.reason == "StartError":
            self._event("Warning", "Failed", f"Error: {attempt.exit.message}", container.name)
        else:
            self._event("Normal", "Started", f"Started container {container.name}", container.name)

    def _attend(self, container: Container, shim: Shim, *, fresh: bool, ready: bool) -> None:
        """Look after a running container."""
        self._shims[container.name] = shim
        self._spawn(partial(self._watch, container, shim), f"watch-{container.name}")
        life = partial(
            look_after,
            self._target(container, shim),
            self._kit.clock,
            _Listener(self, container.name),
            fresh=fresh,
            ready=ready,
        )
        self._lives[container.name] = asyncio.create_task(self._guarded(life, f"life-{container.name}"))

    async def _watch(self, container: Container, shim: Shim) -> None:
        """Wait for the end of an attempt."""
        record = await shim.ended()
        self._lives.pop(container.name).cancel()
        if record is None:
            killed = await asyncio.to_thread(shims.kill_marked, launching.mark(self.uid, container.name).encode())
            log.warning("shim of container %s was killed, and left %d processes", container.name, killed)
        elif record.lost:
            message = f"{record.lost} lines of the log of container {container.name} were lost: the disk is full"
            self._event("Warning", "LogLinesLost", message, container.name)
        attempt = self._containers[container.name].attempt
        assert attempt is not None
        exit = restoring.exit_of(self.pod, container, shim.directory, attempt.number, record, self._now())
        self._attempt(container.name, exit=exit, ready=False)

    def shim(self, container: str) -> Shim | None:
        """What runs of a container."""
        return self._shims.get(container) if container in self._lives else None

    async def command(self, name: str, argv: Sequence[str], defaults: Mapping[str, str] = NO_VARIABLES) -> Command:
        """A command to run in a container, as its own processes run. Raises `ShimError`."""
        return await self._starts.command(self._container(name), argv, defaults)

    def _target(self, container: Container, shim: Shim) -> Target:
        async def run(argv: tuple[str, ...], timeout_seconds: float) -> tuple[int, bytes]:
            command = await self.command(container.name, argv)
            return await shims.run_inside(shim, command, timeout_seconds, OUTPUT_BYTES)

        return Target(container, self.address, run)

    def _stop(self, container: Container, why: str, grace_seconds: float) -> None:
        self._attempt(container.name, stopping_since=self._kit.clock.monotonic())
        self._event("Normal", "Killing", why, container.name)
        self._lives[container.name].cancel()
        shim = self._shims[container.name]
        self._spawn(partial(self._ask_to_end, container, shim, grace_seconds), f"stop-{container.name}")

    async def _ask_to_end(self, container: Container, shim: Shim, grace_seconds: float) -> None:
        """The preStop hook, then the stop signal."""
        lifecycle = container.lifecycle
        if lifecycle is not None and lifecycle.pre_stop is not None and grace_seconds > 0:
            try:
                await hook(lifecycle.pre_stop, self._target(container, shim), self._kit.clock, grace_seconds)
            except CheckFailedError as error:
                self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {error}", container.name)
        name = (lifecycle and lifecycle.stop_signal) or "SIGTERM"
        shim.send(signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGTERM)

    async def _insist(self, shim: Shim) -> None:
        await self._kit.clock.sleep(SHIM_PATIENCE_SECONDS)
        shim.destroy()

    def _container(self, name: str) -> Container:
        return next(c for c in (*self.pod.spec.init_containers, *self.pod.spec.containers) if c.name == name)

    def _set(self, name: str, **changes: Any) -> None:
        self._containers[name] = replace(self._containers.get(name, UNKNOWN), **changes)
        self._wake()

    def _attempt(self, name: str, **changes: Any) -> None:
        attempt = self._containers[name].attempt
        assert attempt is not None, f"nothing of container {name} was begun"
        self._set(name, attempt=replace(attempt, **changes))

    def _event(self, type: EventType, reason: str, message: str, container: str = "") -> None:
        part = ""
        if container:
            init = any(c.name == container for c in self.pod.spec.init_containers)
            part = f"spec.{'initContainers' if init else 'containers'}{{{container}}}"
        self._kit.recorder.event(reference(POD, self.pod, part), type, reason, message)

    def _now(self) -> Now:
        return Now(self._kit.clock.now(), self._kit.clock.monotonic())

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._guarded(work, name), name=f"{self.pod.metadata.name}-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Whatever is wrong with one pod, the others go on. The work is begun here: its task may never get so far."""
        try:
            await work()
        except Exception:
            log.exception("pod %s: %s failed", self.pod.metadata.name, name)


class _Listener:
    """Turns what is seen of a container into facts."""

    def __init__(self, runner: PodRunner, container: str) -> None:
        self._runner = runner
        self._container = container

    def started(self, *, ready: bool) -> None:
        self._runner._attempt(self._container, started=True, ready=ready)  # noqa: SLF001 - two halves of one thing

    def readiness(self, *, ready: bool) -> None:
        self._runner._attempt(self._container, ready=ready)  # noqa: SLF001

    def condemned(self, why: str, grace_seconds: int | None) -> None:
        self._runner._attempt(self._container, condemned=why, condemned_grace_seconds=grace_seconds)  # noqa: SLF001

    def warn(self, reason: str, message: str) -> None:
        self._runner._event("Warning", reason, message, self._container)  # noqa: SLF001
