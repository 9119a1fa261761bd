"""A simulated worker cluster of MultiKueue. Its queues decide about clones of workloads.

A clone's job runs only after the manager has chosen this cluster as its home; until then the clone has quota but no
pods. The manager is notified of each change of a clone, and decides (`engine.federation.manager`).
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.kueue import ClusterQueue, Workload, WorkloadStatus
from muster.api.kueue.names import ADMITTED, FINISHED, QUOTA_RESERVED
from muster.api.meta import Condition
from muster.multicluster.dispatch.views import Remote, RemoteJob
from muster.queueing.model import Assignment, WorkloadInfo
from muster.queueing.quota.status import queue_status
from muster.simulation.engine.agenda import EventAgenda
from muster.simulation.engine.engine import DIGITS, Engine
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.site import Site
from muster.simulation.outcome.record import SimulationRecord, Waiting
from muster.simulation.scenario.model import Spec

# The starts of a clone are numbered from a start that no other clone of the workload reaches.
_STARTS_BITS = 20

# Called with a worker cluster and the key of a changed clone.
Notice = Callable[["WorkerEngine", str], None]


class Clone(Struct):
    """The clone of a manager's workload in a simulated worker cluster.

    job: the job in the worker cluster.
    workload: the workload as the manager has it.
    assignment: the flavors that its queue assigned; None while it waits.
    admitted_at: the time at which it got quota.
    is_home: whether its job was created in this cluster.
    was_evicted: whether its job lost its quota after the manager last read the clone.
    ended_at: the time at which it ended, in seconds from the start.
    remote: the cached state that the manager sees; None after a change.
    """

    job: SimulatedJob
    workload: Workload
    assignment: Assignment | None = None
    admitted_at: datetime | None = None
    is_home: bool = False
    was_evicted: bool = False
    ended_at: float | None = None
    remote: Remote | None = None


class WorkerEngine(Engine):
    """A simulated worker cluster. It records the starts of jobs; the manager records everything else about them.

    name: the name of the cluster.
    is_lost: whether the manager's connection to it is lost.
    """

    def __init__(
        self,
        name: str,
        spec: Spec,
        site: Site,
        configuration: Configuration,
        agenda: EventAgenda,
        record: SimulationRecord,
        notice: Notice,
    ) -> None:
        super().__init__(spec, site, configuration, agenda, record, scope=f"{name}/")
        self.name, self.is_lost = name, False
        self._cluster_queues = {one.metadata.name: one for one in site.cluster_queues}
        self._notice = notice
        self._clones: dict[str, Clone] = {}
        self._nothing = Remote(name, is_tried=True)
        self._created = 0  # the number of clones created so far
        self._uses: Counter[tuple[str, str, str]] = Counter()  # the changes of quota use at this time

    def list_keys(self) -> list[str]:
        """Return the keys of the workloads that have a clone in this worker cluster."""
        return list(self._clones)

    def has_queue(self, local_queue: str) -> bool:
        """Return whether this worker cluster has a LocalQueue with this key."""
        return local_queue in self._local

    def describe_queue(self, local_queue: str) -> ClusterQueue | None:
        """Return the ClusterQueue behind a LocalQueue, with its current status; None if it does not exist."""
        name = self._local.get(local_queue, "")
        queue, node = self._cluster_queues.get(name), self._tree.queues.get(name)
        if queue is None or node is None:
            return None
        status = queue_status(queue.status, node, self._queues.count_waiting(name), fair=False)
        return replace(queue, status=status)

    def has(self, key: str) -> bool:
        """Return whether this worker cluster has a clone of the workload with this key."""
        return key in self._clones

    def get(self, key: str) -> Clone | None:
        """Return the clone of a workload; None if it does not exist."""
        return self._clones.get(key)

    def add_clone(self, one: SimulatedJob, workload: Workload) -> None:
        """Create the clone of a workload, and add it to its ClusterQueue if its LocalQueue exists."""
        now = self._start + timedelta(seconds=self.record.now)
        self._created += 1
        info = replace(
            one.workload,
            uid=f"{self._created:0{DIGITS}}",  # orders clones that are created at the same time
            queue=self._local.get(one.workload.local_queue, ""),
            usage=None,
            reserved=None,
            admitted=False,
            created=now,
            queued=now,
        )
        # The number of the start distinguishes its end from the end of a later clone with the same name.
        job = SimulatedJob(
            one.number, one.submission, one.known, info, one.end, one.work, None, starts=self._created << _STARTS_BITS
        )
        self._jobs[info.key] = job
        self._clones[info.key] = Clone(job, workload)
        if info.queue:
            self._queues.add(info)
        self._note_change(info.key)

    def start_job(self, key: str) -> None:
        """Create the job of a clone, so that it requests nodes, unless the job exists or the clone has no quota."""
        clone = self._clones[key]
        if not clone.is_home and clone.assignment is not None:
            clone.is_home = True
            self._await_pods(clone.job, clone.assignment)
            self._place(clone.job, clone.assignment)
            self._note_change(key)

    def remove_clone(self, key: str) -> None:
        """Remove a clone and its job, with their quota and nodes, and notify the manager. The clone must exist."""
        clone = self._clones.pop(key)
        self._jobs.pop(key, None)
        self._readiness.forget(key)
        if self._machines is not None:
            self._machines.free(key)
        if self._tree.holder(key) is not None:
            self._release(clone.job.workload)
        elif clone.job.workload.queue and clone.ended_at is None:
            self._queues.remove(key)
            self._queues.forget(key)
        self._notice(self, key)

    def describe(self, key: str) -> Remote:
        """Return what the manager sees of a workload in this worker cluster; an empty `Remote` without a clone.

        After an eviction, the first call shows no quota, even if the clone has got quota again.
        """
        clone = self._clones.get(key)
        if clone is None:
            return self._nothing
        if clone.remote is None:
            ended = clone.ended_at is not None
            status = _make_status(None if clone.was_evicted else clone.admitted_at, ended=ended)
            clone.was_evicted = False
            name = clone.workload.metadata.name
            job = RemoteJob(name, clone.job.started is not None, ended, not ended) if clone.is_home else None
            there = Workload(metadata=clone.workload.metadata, spec=clone.workload.spec, status=status)
            clone.remote = replace(self._nothing, workload=there, job=job)
        return clone.remote

    def explain(self, key: str) -> Waiting:
        """Return why the job of a clone has not started in this worker cluster. The clone must exist."""
        job = self._clones[key].job
        if not job.workload.queue:
            return Waiting(job.submission.name, f"there is no LocalQueue {job.workload.local_queue}", never=True)
        return self._explain(job, {})

    def record_uses(self) -> None:
        """Record the changes of quota use at this time, without changes that cancel out."""
        for (queue, flavor, resource), amount in self._uses.items():
            if amount:
                self.record.change(self.record.now, self._scope + queue, flavor, resource, amount)
        self._uses.clear()

    def _note_use(self, workload: WorkloadInfo, sign: int) -> None:
        for (flavor, resource), amount in (workload.usage or {}).items():
            self._uses[workload.queue, flavor, resource] += sign * amount

    def _note_change(self, key: str) -> None:
        if (clone := self._clones.get(key)) is not None:
            clone.remote = None
        self._notice(self, key)

    def _grant(self, job: SimulatedJob, assignment: Assignment) -> None:
        clone = self._clones[job.workload.key]
        clone.assignment = assignment
        moment = self._start + timedelta(seconds=self.record.now)
        clone.admitted_at = moment.replace(microsecond=0)  # the API's precision
        if clone.is_home and (self.is_lost or not clone.was_evicted):  # its cluster resumes it without the manager
            clone.was_evicted = False
            self._await_pods(job, assignment)
            self._place(job, assignment)
        self._note_change(job.workload.key)

    def _begin(self, job: SimulatedJob, since: float | None = None) -> None:
        super()._begin(job, since)
        self.record.locate(job.number, self.name)
        self._note_change(job.workload.key)

    def _note_end(self, job: SimulatedJob) -> None:
        clone = self._clones[job.workload.key]
        clone.assignment, clone.ended_at = None, self.record.now
        self._note_change(job.workload.key)

    def _note_displacement(self, job: SimulatedJob, ran: float) -> None:
        self.record.evict(job.number, ran)
        self._note_change(job.workload.key)

    def _note_eviction(self, job: SimulatedJob, _ran: float) -> None:
        clone = self._clones[job.workload.key]
        clone.assignment, clone.admitted_at, clone.was_evicted = None, None, clone.is_home
        self._note_change(job.workload.key)


@lru_cache(maxsize=1024)
def _make_true(type: str, at: datetime | None) -> Condition:
    return Condition(type=type, status="True", reason=type, last_transition_time=at)


def _make_status(admitted_at: datetime | None, *, ended: bool) -> WorkloadStatus:
    types = (QUOTA_RESERVED, ADMITTED, *((FINISHED,) if ended else ()))
    return WorkloadStatus(conditions=tuple(_make_true(type, admitted_at) for type in types) if admitted_at else ())
