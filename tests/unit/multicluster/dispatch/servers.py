"""A worker cluster, as small as it can be: what its server has, what its controllers make of it, and the way to it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as changed
from datetime import datetime, timedelta
from enum import Enum, auto

from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, DEACTIVATION_TARGET, EVICTED, FINISHED, PENDING, PREEMPTED, QUOTA_RESERVED
from muster.multicluster.dispatch.views import RemoteJob
from muster.queueing.conditions import put


@dataclass
class Job:
    """A job, or a pod of a group. workload: which it names. runs: it has pods. ours: the manager has made it."""

    uid: int
    workload: str
    runs: bool = False
    ended: bool = False
    going: bool = False
    ours: bool = True


@dataclass
class Store:
    """What a server has, by name: Workloads, and jobs."""

    clones: dict[str, Workload] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)

    def copy(self) -> "Store":
        return Store(dict(self.clones), {name: changed(job) for name, job in self.jobs.items()})

    def jobs_of(self, workload: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.ours and job.workload == workload]

    def is_admitted(self, workload: str) -> bool:
        return workload in self.clones and is_true(self.clones[workload].status.conditions, ADMITTED)

    def has_finished(self, workload: str) -> bool:
        return workload in self.clones and is_true(self.clones[workload].status.conditions, FINISHED)

    def seen_as(self, names: tuple[str, ...], workload: str) -> RemoteJob | None:
        """What the jobs of these names are together."""
        found = [self.jobs[name] for name in names if name in self.jobs and self.jobs[name].ours]
        if not found:
            return None
        named = sorted((job.workload for job in found), key=workload.__eq__)
        return RemoteJob(
            named[0],
            started=any(job.runs or job.ended for job in found),
            ended=all(job.ended for job in found),
            active=any(job.runs for job in found),
        )


@dataclass(frozen=True)
class Request:
    """What was asked of a server, and when. It is done at once, or later, or never: it is given up after a minute."""

    ask: Callable[["Server"], None]
    sent: datetime
    makes_job: bool = False

    def may_come(self, now: datetime) -> bool:
        return now - self.sent <= LATE


LATE = timedelta(seconds=60)


class Admission(Enum):
    """What a worker's queue does with a clone."""

    ADMITS = auto()
    REFUSES = auto()
    IS_SILENT = auto()


@dataclass
class Server:
    """A server with its controllers. takes: it has the namespace and the queue."""

    uids: Iterator[int]
    takes: bool = True
    admission: Admission = Admission.ADMITS
    store: Store = field(default_factory=Store)

    def condition(self, name: str, type: str, value: bool, reason: str, now: datetime) -> None:
        clone = self.store.clones[name]
        conditions = put(clone.status.conditions, type, value, reason, "", now)
        self.store.clones[name] = replace(clone, status=replace(clone.status, conditions=conditions))

    # What is asked of it.

    def create_clone(self, clone: Workload) -> None:
        if self.takes:
            uid = str(next(self.uids))
            self.store.clones.setdefault(clone.metadata.name, _with_uid(clone, uid))

    def create_job(self, name: str, workload: str) -> None:
        self.store.jobs.setdefault(name, Job(next(self.uids), workload))

    def delete_job(self, name: str, uid: int) -> None:
        job = self.store.jobs.get(name)
        if job is not None and job.uid == uid:
            job.going = True

    def delete_clone(self, name: str, uid: str) -> None:
        clone = self.store.clones.get(name)
        if clone is not None and clone.metadata.uid == uid:
            del self.store.clones[name]

    def deactivate(self, name: str, uid: str, now: datetime) -> None:
        clone = self.store.clones.get(name)
        if clone is not None and clone.metadata.uid == uid:
            self.condition(name, DEACTIVATION_TARGET, True, "EvictedOnManagerCluster", now)

    def align(self, name: str, priority: int) -> None:
        clone = self.store.clones.get(name)
        if clone is not None:
            self.store.clones[name] = replace(clone, spec=replace(clone.spec, priority=priority))

    # What it does by itself: the first thing that there is to do.

    def work(self, now: datetime, *, may_end: bool = True) -> None:
        for name, job in self.store.jobs.items():
            if self._stops(job):
                return
            if job.going:
                del self.store.jobs[name]
                return
        for name in self.store.clones:
            if self._lives(name, now, may_end=may_end):
                return

    def _stops(self, job: Job) -> bool:
        stops = job.ours and job.runs and (job.going or not self.store.is_admitted(job.workload))
        job.runs = job.runs and not stops
        return stops

    def _lives(self, name: str, now: datetime, *, may_end: bool) -> bool:
        conditions, jobs = self.store.clones[name].status.conditions, self.store.jobs_of(name)
        runs = any(job.runs for job in jobs)
        if is_true(conditions, FINISHED):
            return False
        if jobs and all(job.ended for job in jobs):
            self.condition(name, FINISHED, True, "Succeeded", now)
        elif is_true(conditions, DEACTIVATION_TARGET):
            if is_true(conditions, ADMITTED) or not is_true(conditions, EVICTED):
                self.condition(name, EVICTED, True, "Deactivated", now)
                self.condition(name, ADMITTED, False, "NoReservation", now)
            elif not runs and is_true(conditions, QUOTA_RESERVED):
                self.condition(name, QUOTA_RESERVED, False, "Deactivated", now)
            else:
                return False
        elif not is_true(conditions, ADMITTED):
            if runs or self.admission is Admission.IS_SILENT:
                return False
            if self.admission is Admission.REFUSES:
                return self._refuse(name, now)
            for type, value in ((QUOTA_RESERVED, True), (EVICTED, False), (ADMITTED, True)):
                self.condition(name, type, value, type, now)
        else:
            return self._runs(jobs, may_end=may_end)
        return True

    def _refuse(self, name: str, now: datetime) -> bool:
        before = self.store.clones[name].status.conditions
        if any(one.type == QUOTA_RESERVED and one.status == "False" for one in before):
            return False
        self.condition(name, QUOTA_RESERVED, False, PENDING, now)
        return True

    def _runs(self, jobs: list[Job], *, may_end: bool) -> bool:
        """All of a group start; each ends by itself."""
        waiting = [job for job in jobs if not (job.runs or job.ended or job.going)]
        running = [job for job in jobs if job.runs and may_end]
        for job in waiting or running[:1]:
            job.runs, job.ended = bool(waiting), not waiting
        return bool(waiting or running)

    def evict(self, now: datetime) -> None:
        """Its own queue takes quota back."""
        for name in self.store.clones:
            if self.store.is_admitted(name) and not self.store.has_finished(name):
                self.condition(name, EVICTED, True, PREEMPTED, now)
                self.condition(name, ADMITTED, False, "NoReservation", now)


def _with_uid(clone: Workload, uid: str) -> Workload:
    return replace(clone, metadata=replace(clone.metadata, uid=uid))


@dataclass
class Worker:
    """A worker cluster as its manager has it: a name, and the server that is behind it.

    seen: what the manager's caches have of it. sent: requests that have not arrived.
    known: the server is the one that the manager knows under this name. other: one that was under its name before.
    loose: what runs there is not the manager's fault, until the cluster has been cleared.
    """

    name: str
    server: Server
    lost_since: datetime | None = None
    cut: bool = False
    seen: Store = field(default_factory=Store)
    sent: list[Request] = field(default_factory=list)
    known: bool = True
    other: Server | None = None
    loose: bool = False

    def see(self) -> None:
        if self.lost_since is None:
            self.seen = self.server.store.copy()

    def lose(self, now: datetime) -> None:
        self.cut, self.lost_since = True, self.lost_since or now

    def find(self, *, is_home: bool) -> None:
        """Connected again: the caches begin with a list. Another server is let in only where nothing has its home."""
        self.cut = False
        if self.known or not is_home:
            self.known, self.lost_since = True, None
            self.see()

    def land(self, number: int, now: datetime) -> None:
        """One of the requests arrives, maybe long after it was sent."""
        self.sent = [request for request in self.sent if request.may_come(now)]
        if self.sent and not self.cut:
            self.sent.pop(number % len(self.sent)).ask(self.server)

    def swap(self, new: Server, now: datetime) -> None:
        """Another server answers under its name: a new one, or that of before."""
        self.server, self.other = self.other or new, self.server
        self.known, self.lost_since = not self.known, self.lost_since or now
        self.sent.clear()
        self.loose = True

    def restore(self, store: Store, now: datetime) -> None:
        """Its server has the state of an earlier time."""
        self.server.store, self.lost_since = store.copy(), self.lost_since or now
