"""A manager of workers, as small as it can be: its queueing, what it sees, and what it does of what `decide` says.

It sees workers through caches that lag, and sends requests that may land late: they are kept in `sent` until a step
lets them. It may be killed between any two of its writes.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from random import Random

import msgspec
from msgspec.structs import replace
from tests.unit.multicluster.dispatch.servers import LATE, Request, Server, Store, Worker

from muster.api.conditions import is_true
from muster.api.config.types import ALL_AT_ONCE
from muster.api.kueue import (
    CHECK_PENDING,
    CHECK_READY,
    CHECK_RETRY,
    AdmissionCheckState,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from muster.api.kueue.names import ADMITTED, EVICTED, FINISHED, PREEMPTED, QUOTA_RESERVED
from muster.api.meta import ObjectMeta
from muster.multicluster.dispatch import clone as clones
from muster.multicluster.dispatch.decide import decide, has_ended_for_good, is_clear
from muster.multicluster.dispatch.views import DispatchPlan, DispatchSettings, DispatchView, Lead, Remote
from muster.queueing.conditions import put, reset
from muster.queueing.workload.eviction import evict, release_evicted

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CHECK, ORIGIN = "multikueue", "here"
SETTINGS = DispatchSettings(timedelta(minutes=15), ALL_AT_ONCE)


def workload(name: str = "job-train-12345") -> Workload:
    """One that waits for quota."""
    podset = {"name": "main", "count": 4, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    spec = msgspec.convert({"podSets": [podset], "queueName": "team"}, WorkloadSpec)
    return Workload(metadata=ObjectMeta(name=name, namespace="default", uid="1"), spec=spec)


def clone(given: Workload, origin: str = ORIGIN) -> Workload:
    """What a worker gets for it."""
    return msgspec.convert(clones.make_clone(msgspec.to_builtins(given), origin), Workload)


def with_check(status: WorkloadStatus, state: str, now: datetime) -> WorkloadStatus:
    check = AdmissionCheckState(name=CHECK, state=state, message="", last_transition_time=now)
    return replace(status, admission_checks=(check,))


class Manager:
    """One job, or a group of pods, of which each pod is a job. members: their names, the same everywhere."""

    def __init__(
        self, random: Random, workers: Mapping[str, Worker], members: tuple[str, ...], dispatcher: str
    ) -> None:
        self.random, self.now = random, NOW
        self.settings = replace(SETTINGS, dispatcher=dispatcher, step=1, began=NOW - LATE)
        self.numbers = count()
        self.workers, self.members = workers, members
        self.workload: Workload | None = None
        self.home = ""
        self.local_runs = self.local_ended = False  # the status of the job here
        self.held = False  # a person has deactivated it
        self.is_calm = False  # it is not killed any more
        self.is_over = False  # once it is deleted it is not submitted again
        self.lead: Lead | None = None
        self.cleared: set[str] = set()  # workers where something was taken away before the end
        self.submit()

    # Its own queueing.

    def submit(self) -> None:
        """A job is made here, of the same name as one before it."""
        self.workload, self.home = workload(f"job-train-{next(self.numbers)}"), ""
        self.local_runs = self.local_ended = self.held = False

    def live_here(self) -> None:
        one, now = self.workload, self.now
        if one is None:
            if not self.is_over:
                self.submit()
            return
        status, conditions = one.status, one.status.conditions
        if one.metadata.deletion_timestamp is not None:
            if not self.home:
                self.workload = None
            return
        if is_true(conditions, FINISHED):
            return
        if self.local_ended:
            status = replace(status, conditions=put(conditions, FINISHED, True, "Succeeded", "", now))
        elif not is_true(conditions, QUOTA_RESERVED):
            if self.held:
                return
            conditions = put(conditions, QUOTA_RESERVED, True, QUOTA_RESERVED, "", now)
            conditions = reset(conditions, EVICTED, QUOTA_RESERVED, now)
            status = with_check(replace(status, conditions=conditions), CHECK_PENDING, now)
        elif is_true(conditions, EVICTED):
            status = status if self.local_runs or self.home else release_evicted(status, now)
        elif self.state == CHECK_RETRY:
            status = evict(status, "AdmissionCheck", "", now)
        elif self.state == CHECK_READY and not is_true(conditions, ADMITTED):
            status = replace(status, conditions=put(conditions, ADMITTED, True, ADMITTED, "", now))
        self.workload = replace(one, status=status)

    def preempt_here(self, _worker: Worker | None = None) -> None:
        one = self.workload
        if one is not None and self.has_quota() and not self.has_finished():
            self.workload = replace(one, status=evict(one.status, PREEMPTED, "", self.now))

    @property
    def state(self) -> str:
        checks = self.workload.status.admission_checks if self.workload is not None else ()
        return next((check.state for check in checks), "")

    @property
    def cluster(self) -> str | None:
        """Where it runs or ran, as users are told."""
        return self.workload.status.cluster_name if self.workload is not None else None

    def has_quota(self) -> bool:
        return self.workload is not None and is_true(self.workload.status.conditions, QUOTA_RESERVED)

    def has_finished(self) -> bool:
        return self.workload is not None and is_true(self.workload.status.conditions, FINISHED)

    # One look.

    def look(self) -> None:
        if (view := self.view()) is None:
            return
        plan = decide(view, self.settings, self.now)
        self.lead = plan.lead
        if self.random.random() < 0.1:
            self._holds_until_it_wakes(view, plan)
        if plan.home != self.home:
            self.move(plan.home)
        else:
            self.carry_out(plan)

    def _holds_until_it_wakes(self, view: DispatchView, plan: DispatchPlan) -> None:
        """The passing of time changes a decision only when it said so."""
        later = self.now + timedelta(hours=9) if plan.wake_at is None else plan.wake_at - timedelta(seconds=1)
        if later > self.now:
            assert _asks(decide(view, self.settings, later)) == _asks(plan), f"it changes at {later}"

    def view(self) -> DispatchView | None:
        if self.workload is None:
            return None
        remotes = tuple(map(self.remote, self.workers.values()))
        if self.random.random() < 0.5:  # what it knows of their queues is right or wrong
            roomy = self.random.choice(remotes).cluster
            remotes = tuple(replace(one, seconds=0.0 if one.cluster == roomy else None) for one in remotes)
        return DispatchView(
            self.workload, CHECK, home=self.home, mirrored=self.is_mirrored(), remotes=remotes, lead=self.lead
        )

    def remote(self, worker: Worker) -> Remote:
        return self._remote(worker, worker.seen)

    def _remote(self, worker: Worker, store: Store) -> Remote:
        assert self.workload is not None
        name = self.workload.metadata.name
        job = store.seen_as(self._names(store), name)
        barred = any(one in store.jobs and not store.jobs[one].ours for one in self.members)
        found = store.clones.get(name)
        return Remote(worker.name, lost_since=worker.lost_since, workload=found, job=job, is_barred=barred)

    def _names(self, store: Store) -> tuple[str, ...]:
        """Its members, and jobs that were: all that name the workload are its."""
        assert self.workload is not None
        name = self.workload.metadata.name
        others = (one for one, job in store.jobs.items() if job.ours and job.workload == name)
        return tuple(dict.fromkeys((*self.members, *others)))

    def is_mirrored(self) -> bool:
        if self.home not in self.workers:
            return True
        shown = self._shown(self.workers[self.home].seen)
        return shown is None or shown == (self.local_runs, self.local_ended)

    def _shown(self, store: Store) -> tuple[bool, bool] | None:
        job = store.seen_as(self.members, self.workload.metadata.name if self.workload is not None else "")
        return None if job is None else (job.active, job.ended)

    # What it does.

    def move(self, home: str) -> None:
        """A home is stored; it is taken back where a look at the cluster itself finds it clear, or it is lost."""
        before = self.workers.get(self.home)
        if not home and before is not None:
            assert self.workload is not None
            seen, now = self.remote(before), self._remote(before, before.server.store)
            is_over = has_ended_for_good(self.workload, seen) or is_clear(self.workload, now)
            if before.lost_since is None and (self._may_come(before) or not is_over):
                return
            if before.lost_since is not None:
                assert self.now >= before.lost_since + self.settings.lost_timeout, "given up too early"
                before.loose, self.cleared = True, {*self.cleared, before.name}
        self.home = home

    def _may_come(self, worker: Worker) -> bool:
        """Whether a request to make its job may still be under way there; of those before its start it cannot know."""
        sent = (request for request in worker.sent if request.makes_job)
        return self.now - self.settings.began <= LATE or any(request.may_come(self.now) for request in sent)

    def restart(self, _worker: Worker | None = None) -> None:
        """It knows what is stored here, and of the workers nothing: they are lost until they are found."""
        self.settings, self.lead = replace(self.settings, began=self.now), None
        for worker in self.workers.values():
            worker.seen, worker.lost_since = Store(), self.now

    def carry_out(self, plan: DispatchPlan) -> None:
        """As far as it comes: it may be killed after each write."""
        assert self.workload is not None
        writes = self._writes(plan)
        killed = self.random.random() < 0.02 and not self.is_calm
        for write in writes[: self.random.randrange(len(writes)) if killed else len(writes)]:
            write()
        if killed:
            self.restart()

    def _writes(self, plan: DispatchPlan) -> list[Callable[[], None]]:
        assert self.workload is not None
        if not self.has_finished():
            self.cleared.update(plan.remove)
        writes: list[Callable[[], None]] = [partial(self._write_status, plan)]
        writes += [partial(self._send, name, _creation(clone(self.workload))) for name in plan.create]
        writes += [partial(self._align, name) for name in plan.align]
        writes += [partial(self.remove, self.workers[name], self.workload.metadata.name) for name in plan.remove]
        if plan.evict:
            writes.append(partial(self._evict, self.workers[plan.evict]))
        if plan.mirror:
            writes.append(partial(self.mirror, self.workers[plan.mirror]))
        return writes

    def _write_status(self, plan: DispatchPlan) -> None:
        assert self.workload is not None
        self.workload = replace(self.workload, status=plan.status)
        self.local_runs = self.local_runs and not plan.stopped

    def _send(self, name: str, ask: Callable[[Server], None], *, makes_job: bool = False) -> None:
        worker = self.workers[name]
        if worker.lost_since is None:
            worker.sent.append(Request(ask, self.now, makes_job))

    def _align(self, name: str) -> None:
        assert self.workload is not None
        key, priority = self.workload.metadata.name, self.workload.spec.priority or 0
        self._send(name, lambda server: server.align(key, priority))

    def _evict(self, worker: Worker) -> None:
        assert self.workload is not None
        key, now = self.workload.metadata.name, self.now
        uid = worker.seen.clones[key].metadata.uid
        self._send(worker.name, lambda server: server.deactivate(key, uid, now))

    def remove(self, worker: Worker, key: str) -> None:
        """The jobs that were seen; once there are none, the clone."""
        jobs = {name: job for name, job in worker.seen.jobs.items() if job.ours}
        jobs = {name: job for name, job in jobs.items() if job.workload == key or name in self.members}
        for name, job in jobs.items():
            self._send(worker.name, partial(Server.delete_job, name=name, uid=job.uid))
        if not jobs and (found := worker.seen.clones.get(key)) is not None:
            self._send(worker.name, partial(Server.delete_clone, name=key, uid=found.metadata.uid))

    def mirror(self, worker: Worker) -> None:
        """Jobs that are missing are made, those that are none of it go, and the status comes here."""
        assert self.workload is not None
        key, status = self.workload.metadata.name, self.workload.status
        suspended = is_true(status.conditions, EVICTED)
        if self._may_start(worker) and not self.local_ended:
            for name in self.members:
                if name not in worker.seen.jobs:
                    self._send(worker.name, partial(Server.create_job, name=name, workload=key), makes_job=True)
        for name, job in worker.seen.jobs.items():
            if job.ours and job.workload == key and name not in self.members:
                self._send(worker.name, partial(Server.delete_job, name=name, uid=job.uid))
        shown = self._shown(worker.seen)
        if shown is not None and not (shown[0] and suspended):  # put off
            self.local_runs, self.local_ended = shown

    def _may_start(self, worker: Worker) -> bool:
        """What the server here says, whatever was decided."""
        assert self.workload is not None
        conditions = self.workload.status.conditions
        return (
            self.home == worker.name
            and is_true(conditions, QUOTA_RESERVED)
            and not is_true(conditions, EVICTED)
            and not is_true(conditions, FINISHED)
        )

    def collect(self) -> None:
        """What belongs to workloads that are not here any more goes."""
        mine = self.workload.metadata.name if self.workload is not None else ""
        for worker in self.workers.values():
            if worker.lost_since is None:
                keys = {*worker.seen.clones, *(job.workload for job in worker.seen.jobs.values() if job.ours)}
                for key in sorted(keys - {mine}):
                    jobs = [(name, job) for name, job in worker.seen.jobs.items() if job.ours and job.workload == key]
                    for name, job in jobs:
                        self._send(worker.name, partial(Server.delete_job, name=name, uid=job.uid))
                    if not jobs:
                        uid = worker.seen.clones[key].metadata.uid
                        self._send(worker.name, partial(Server.delete_clone, name=key, uid=uid))


def _asks(plan: DispatchPlan) -> tuple[object, ...]:
    return plan.home, plan.create, plan.align, plan.remove, plan.evict, plan.mirror, plan.stopped


def _creation(made: Workload) -> Callable[[Server], None]:
    return lambda server: server.create_clone(made)
