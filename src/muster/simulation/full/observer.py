"""Record the history of a cluster's jobs, from the events of its Workloads, jobs and pods."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, field

from muster.api.batch import JOB, JOB_NAME_LABEL, Job
from muster.api.conditions import find, find_true, is_true
from muster.api.core import POD, Pod
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kueue import WORKLOAD, Admission, Workload
from muster.api.kueue.names import EVICTED, FAILED, FINISHED, QUOTA_RESERVED
from muster.api.meta import controller_of
from muster.api.pods import find_condition, is_deleting
from muster.controllers.integrations.framework import Integration
from muster.jobs.interruption import PREEMPTED, Interruption, interruption_of
from muster.jobs.job.conditions import DEADLINE_EXCEEDED, find_announced_end
from muster.queueing import convert
from muster.queueing.model import Usage
from muster.runtime.control.manager import Manager
from muster.runtime.objects import key_of, meta_of
from muster.simulation.full.manifests import read_number
from muster.simulation.outcome.record import SimulationRecord, Waiting
from muster.simulation.outcome.runs import Amounts

_NO_USAGE: Usage = {}


class _Clone(Struct, frozen=True):
    """The clone of a job's Workload in a worker cluster, and the quota that the clone holds there.

    pods: the number of pods that may run there.
    """

    queue: str
    usage: Usage
    pods: int


_NO_CLONE = _Clone("", _NO_USAGE, 0)


class _Job(Struct):
    """A job that has not ended.

    number: the number of the job in the record.
    pods: the number of its pods, as submitted or, after its admission, as admitted.
    queued: whether quota decides when it runs.
    exceeds_limit: whether its run time is longer than its time limit.
    started: the time since which all its pods run; None if some do not run.
    requests: the total requests of all its pods.
    usage: the quota that it holds in this cluster.
    queue: the ClusterQueue of its admission; "" before that.
    evicted: whether its Workload has the condition Evicted.
    home: the worker cluster of its last start; "" for this cluster.
    stopped_there: whether its home has evicted it since its last start.
    is_overdue: whether a deadline of its template has passed.
    running: the UIDs of its running pods, by the name of the worker cluster; "" is this cluster.
    clones: its clones that hold quota, by the name of the worker cluster.
    """

    number: int
    name: str
    pods: int
    requests: Amounts
    queued: bool
    exceeds_limit: bool
    started: float | None = None
    usage: Usage = _NO_USAGE
    queue: str = ""
    evicted: bool = False
    home: str = ""
    stopped_there: bool = False
    is_overdue: bool = False
    running: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    clones: dict[str, _Clone] = field(default_factory=dict)

    def runs_whole(self, cluster: str) -> bool:
        """Return whether all pods that the job should have in a cluster run there.

        cluster: the name of a worker cluster; "" for this cluster.
        """
        clone = self.clones.get(cluster)
        return len(self.running[cluster]) >= (self.pods if clone is None else clone.pods)

    def sum_demand(self, cluster: str) -> Amounts:
        """Return the resources that the job needs in a cluster: its quota there or, without quota, its pods' requests.

        cluster: the name of a worker cluster; "" for this cluster.
        """
        clone, total = self.clones.get(cluster), Counter[str]()
        for (_, resource), amount in (self.usage if clone is None else clone.usage).items():
            total[resource] += amount
        return tuple(sorted(total.items())) or self.requests


class Observer:
    """A recorder of the history of a cluster's jobs, from the informers of a manager.

    integrations: the integrations for the kinds of its jobs.
    now: returns the seconds since the start of the scenario.
    """

    def __init__(
        self,
        manager: Manager,
        integrations: Iterable[Integration[Any]],
        record: SimulationRecord,
        settings: convert.ConversionSettings,
        now: Callable[[], float],
    ) -> None:
        self._record = record
        self._settings = settings
        self._now = now
        self._ended: deque[tuple[float, int]] = deque()  # since when, and the number; not yet taken
        self._jobs: dict[int, _Job] = {}
        self._workloads, self._pods = manager.informer(WORKLOAD), manager.informer(POD)
        self._workloads.on_change(self._on_workload)
        self._pods.on_change(partial(self._on_pod, ""))
        self._of_workloads: dict[str, int] = {}  # the number of the job of each Workload, by the Workload's key
        manager.informer(JOB).on_change(self._on_deadline)
        for integration in integrations:
            manager.informer(integration.kind).on_change(partial(self._on_job, integration))

    @property
    def unfinished(self) -> int:
        """The number of jobs that have not ended."""
        return len(self._jobs)

    @property
    def is_anything_running(self) -> bool:
        """Whether any pod runs."""
        return any(pods for job in self._jobs.values() for pods in job.running.values())

    def follow_worker(self, name: str, manager: Manager) -> None:
        """Record what happens to this cluster's jobs in a worker cluster, too.

        manager: the manager of the worker cluster.
        """
        manager.informer(WORKLOAD).on_change(partial(self._on_clone, name))
        manager.informer(POD).on_change(partial(self._on_pod, name))
        manager.informer(JOB).on_change(self._on_deadline)

    def expect(
        self, number: int, name: str, pods: int, requests: Amounts, *, queued: bool, exceeds_limit: bool
    ) -> None:
        """Follow a job that is about to be created.

        pods: the number of its pods.
        requests: the total requests of all its pods.
        queued: whether it needs quota.
        exceeds_limit: whether its run time is longer than its time limit.
        """
        self._jobs[number] = _Job(number, name, pods, requests, queued, exceeds_limit)

    def take_ended(self, until: float) -> Iterator[int]:
        """Yield the numbers of the jobs that ended by `until`, each once."""
        while self._ended and self._ended[0][0] <= until:
            yield self._ended.popleft()[1]

    def list_waiting(self) -> Iterator[tuple[Waiting, str]]:
        """Yield each job that does not run, and the reason why its Workload has no quota.

        The reason is "" if the Workload has quota, does not exist, or has not been judged. `Waiting.never` is not set.
        """
        workloads = {_read_number_of_workload(one): one for one in self._workloads.all()}
        unbound = {_read_number_of_pod(pod): pod for pod in self._pods.all() if not pod.spec.node_name}
        for job in self._jobs.values():
            if job.started is not None:
                continue
            workload, pod = workloads.get(job.number), unbound.get(job.number)
            reserved = find(workload.status.conditions, QUOTA_RESERVED) if workload is not None else None
            if reserved is not None and reserved.status != "True":
                yield Waiting(job.name, reserved.message, never=False), reserved.reason
            elif pod is not None and (scheduled := find_condition(pod, "PodScheduled")) is not None:
                yield Waiting(job.name, scheduled.message, never=False), ""
            elif job.usage or not job.queued:
                yield Waiting(job.name, "the nodes have no room for it", never=False), ""
            else:
                yield Waiting(job.name, "other jobs of its queue come first", never=False), ""

    # Events of the cluster.

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        number = _read_number_of_workload(new if new is not None else old)
        if number is not None and new is not None:
            self._of_workloads[key_of(new)] = number
        elif old is not None:
            self._of_workloads.pop(key_of(old), None)
        job = self._find(number)
        if job is None or new is None:
            return
        conditions = new.status.conditions
        evicted = is_true(conditions, EVICTED)
        if evicted and not job.evicted and not job.stopped_there:
            self._note_stop(job)
        job.evicted = evicted
        if _has_finished(new):
            self._finish(job, failed=_has_failed(new))
            return
        if new.status.admission is not None:
            job.queue = new.status.admission.cluster_queue
            job.pods = _count_pods(new.status.admission, job.pods)
        self._set_usage(job, convert.convert_workload(new, job.queue, self._settings).usage or _NO_USAGE)

    def _on_clone(self, cluster: str, old: Workload | None, new: Workload | None) -> None:
        """Record a change of the quota that a job's clone holds in a worker cluster.

        A job that runs there is recorded as evicted if its clone lost the quota.
        """
        workload = new if new is not None else old
        assert workload is not None, "one of both is there"
        job = self._find(self._of_workloads.get(key_of(workload)))
        if job is None:
            return
        before = job.clones.pop(cluster, _NO_CLONE)
        clone = self._read_clone(cluster, new, job.pods)
        if clone is not _NO_CLONE:
            job.clones[cluster] = clone
        elif job.home == cluster and job.started is not None and (new is None or not _has_finished(new)):
            self._note_stop(job)  # the manager evicts it later, unless it has not seen the start
            job.stopped_there = True
        self._record_difference(clone.queue or before.queue, before.usage, clone.usage)

    def _read_clone(self, cluster: str, workload: Workload | None, pods: int) -> _Clone:
        """Return the quota and pods of a clone; `_NO_CLONE` if it holds no quota or has finished.

        pods: the number of the job's pods, for an admission that does not set the number.
        """
        if workload is None or workload.status.admission is None or _has_finished(workload):
            return _NO_CLONE
        admission = workload.status.admission
        queue = f"{cluster}/{admission.cluster_queue}"
        usage = convert.convert_workload(workload, queue, self._settings).usage or _NO_USAGE
        return _Clone(queue, usage, _count_pods(admission, pods))

    def _on_job(self, integration: Integration[Any], _: Any | None, new: Any | None) -> None:
        """Record the end of a job.

        The job's Workload shows the end slightly later, or never if there is no Workload.
        """
        job = self._find(read_number(meta_of(new).name)) if new is not None else None
        if job is not None and (end := integration.end(new)) is not None:
            self._finish(job, failed=not end.success)

    def _on_deadline(self, _: Job | None, new: Job | None) -> None:
        """Record that the deadline of a Job has passed. A JobSet to which the Job belongs shows its end later."""
        end = find_announced_end(new) if new is not None else None
        job = self._find(_read_number_of_batch_job(new))
        if job is not None and end is not None and end.reason == DEADLINE_EXCEEDED.reason:
            job.is_overdue = True

    def _on_pod(self, cluster: str, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        job = self._find(_read_number_of_pod(pod))
        if job is None or pod is None:
            return
        running = job.running[cluster]
        counts = job.started is not None and not job.evicted and pod.metadata.uid in running
        if counts and (interruption := interruption_of(pod)) is not None:
            self._note_interruption(job, interruption)
        if new is None or new.status.phase != "Running" or is_deleting(new):
            running.discard(pod.metadata.uid)
            return
        running.add(pod.metadata.uid)
        if job.started is None and not job.evicted and job.runs_whole(cluster):
            self._mark()
            job.started, job.home, job.stopped_there = self._record.now, cluster, False
            self._record.start(job.number, self._record.now, job.sum_demand(cluster))
            if cluster:
                self._record.locate(job.number, cluster)

    def _note_stop(self, job: _Job) -> None:
        """Record that a job was evicted now, and lost all work since its start."""
        self._mark()
        self._record.evict(job.number, 0.0 if job.started is None else self._record.now - job.started)
        job.started = None

    def _note_interruption(self, job: _Job, interruption: Interruption) -> None:
        """Record that a running job lost a pod by preemption, or with its node.

        The job starts again when all its pods run again.
        """
        self._mark()
        lost = self._record.now - (job.started or 0.0)
        job.started = None
        if interruption.reason == PREEMPTED:
            self._record.evict(job.number, lost)
        else:
            self._record.interrupt(job.number, lost)

    def _find(self, number: int | None) -> _Job | None:
        return None if number is None else self._jobs.get(number)

    def _finish(self, job: _Job, *, failed: bool) -> None:
        """Record the end of a job.

        failed: whether the job failed. Only a deadline, or the job's policy for lost pods, makes a simulated job fail.
        """
        self._mark()
        del self._jobs[job.number]
        over_limit = job.exceeds_limit or (failed and job.is_overdue)
        self._record.end(job.number, self._record.now, over_limit=over_limit)
        self._set_usage(job, _NO_USAGE)
        for clone in job.clones.values():
            self._record_difference(clone.queue, clone.usage, _NO_USAGE)
        self._ended.append((self._record.now, job.number))

    def _set_usage(self, job: _Job, usage: Usage) -> None:
        """Set the quota that a job holds, and record the difference."""
        self._record_difference(job.queue, job.usage, usage)
        job.usage = usage

    def _record_difference(self, queue: str, before: Usage, usage: Usage) -> None:
        for key in sorted(before.keys() | usage.keys()):
            if difference := usage.get(key, 0) - before.get(key, 0):
                self._mark()
                self._record.change(self._record.now, queue, *key, difference)

    def _mark(self) -> None:
        self._record.now = self._now()


def _read_number_of_workload(workload: Workload | None) -> int | None:
    owner = controller_of(workload.metadata) if workload is not None else None
    return None if owner is None else read_number(owner.name)


def _read_number_of_batch_job(job: Job | None) -> int | None:
    return None if job is None else read_number(job.metadata.labels.get(JOBSET_NAME) or job.metadata.name)


def _read_number_of_pod(pod: Pod | None) -> int | None:
    labels: Mapping[str, str] = pod.metadata.labels if pod is not None else {}
    return read_number(labels.get(JOBSET_NAME) or labels.get(JOB_NAME_LABEL, ""))


def _has_finished(workload: Workload) -> bool:
    return is_true(workload.status.conditions, FINISHED)


def _has_failed(workload: Workload) -> bool:
    finished = find_true(workload.status.conditions, FINISHED)
    return finished is not None and finished.reason == FAILED


def _count_pods(admission: Admission, pods: int) -> int:
    """Return the number of admitted pods.

    pods: the number of pods if the admission does not set it.
    """
    counts = [one.count for one in admission.pod_set_assignments]
    return pods if None in counts else sum(count or 0 for count in counts)
