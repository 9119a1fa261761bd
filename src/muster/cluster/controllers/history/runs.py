"""Find the runs to record: the runs of finished jobs, and of jobs that were deleted before they finished.

Some facts disappear with their objects, and are remembered as long as they are needed: the last state of a deleted job
while some of its pods exist, and the results of its pods. Nothing in this module waits.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from muster.api.batch import JOB, Job
from muster.api.conditions import find_true
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import FINISHED
from muster.api.managed.variants import is_variant
from muster.api.meta import controller_of
from muster.api.ours.usage import USAGE_ANNOTATION
from muster.api.pods import job_of
from muster.insight.history.build import NO_TRACE, Trace, amend_run, run_of, run_of_workload, sum_traces
from muster.insight.history.runs import Run
from muster.insight.quota.state import owner_uids
from muster.insight.record import JobRecord, record_of
from muster.runtime.control.manager import Manager
from muster.runtime.objects import ignores_status, own_key, owner_key

_BY_UID = "uid"
# Indexes of Jobs by the JobSet that owns them, and of pods by their Job or JobSet.
BY_OWNER, BY_JOB = "history-owner", "history-job"

# The maximum number of failed pods to remember for a finished job whose run was not returned yet.
_MOST_FAILED = 16

Source: TypeAlias = Job | JobSet | Workload


class _Gone(Struct, frozen=True):
    """A deleted job.

    subject: the job's last state.
    at: the time of its deletion.
    pods: the pods of the job whose deletion was not observed yet.
    """

    subject: JobRecord | Workload
    at: datetime
    pods: tuple[Pod, ...] = ()


class Runs:
    """The jobs and pods of a manager's informers, from which runs are recorded.

    changed: called when a run is due for `take`.
    """

    def __init__(self, manager: Manager, changed: Callable[[], None]) -> None:
        self._clock = manager.clock
        self._changed = changed
        self._sets = manager.informer(JOB_SET, indexes={_BY_UID: _index_by_uid})
        self._jobs = manager.informer(JOB, indexes={_BY_UID: _index_by_uid, BY_OWNER: owner_keys})
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_UID: _index_by_uid, BY_OWNER: owner_uids})
        self._pods = manager.informer(POD, indexes={_BY_UID: _index_by_uid, BY_JOB: job_key})
        self._due: set[str] = set()
        self._known: set[str] = set()  # recorded before this start
        self._returned: dict[str, Run] = {}  # the other runs that were returned, for as long as objects of them exist
        self._gone: dict[str, _Gone] = {}
        self._traces: dict[str, Trace] = {}  # the traces of deleted pods
        self._failed: dict[str, tuple[Pod, ...]] = {}  # failed pods that went after the end of their due run

    def follow(self) -> None:
        """Add all existing jobs, JobSets, Workloads and pods, and follow every change of them from now on."""
        self._sets.on_change(self._on_source_changed)
        self._jobs.on_change(self._on_source_changed)
        self._workloads.on_change(self._on_source_changed)
        self._pods.on_change(self._on_pod_changed)

    def add_deleted(self, sources: Sequence[Source], pods: Sequence[Pod]) -> None:
        """Add objects that were deleted while no server ran."""
        jobs = [one for one in sources if isinstance(one, Job)]
        for source in sources:
            if not self._is_part(source):
                subject = source if isinstance(source, Workload) else record_of(source, jobs)
                at = source.metadata.deletion_timestamp or self._read_clock()
                self._record_deletion(
                    source.metadata.uid, _Gone(subject, at, tuple(pod for pod in pods if _is_pod_of(subject, pod)))
                )

    @property
    def due(self) -> Iterable[str]:
        """The UIDs of the runs to examine in `take`."""
        return tuple(self._due)

    def mark_known(self, uids: Iterable[str]) -> None:
        """Mark runs that are already recorded in their final form."""
        for uid in uids:
            if uid not in self._gone:
                self._known.add(uid)
            self._forget(uid)

    def take(self, at_most: int) -> list[Run]:
        """Examine at most `at_most` runs that are due; return the new or changed ones, each once."""
        due = [self._due.pop() for _ in range(min(at_most, len(self._due)))]
        return [run for uid in due if (run := self._update_run(uid)) is not None]

    def _update_run(self, uid: str) -> Run | None:
        before, run = self._returned.get(uid), self._make_run(uid)
        if run is not None:
            run = self._returned[uid] = amend_run(before, run) if before is not None else run
            self._failed.pop(uid, None)
        gone = self._gone.get(uid)
        if gone is not None and not self._find_pods(gone.subject):
            self._forget(uid)
        return run if run != before else None

    def _make_run(self, uid: str) -> Run | None:
        gone = self._gone.get(uid)
        subject = gone.subject if gone is not None else self._find_subject(uid)
        if subject is None:
            return None
        before, deleted = self._traces.get(uid, NO_TRACE), gone.at if gone is not None else None
        pods = [*self._find_pods(subject), *self._failed.get(uid, ()), *(gone.pods if gone is not None else ())]
        if isinstance(subject, JobRecord):
            own = self._workloads.by(BY_OWNER, uid)
            workload = next((one for one in own if not is_variant(one)), None)
            return run_of(subject, pods, before, deleted, workload)
        return run_of_workload(subject, pods, before, deleted)

    def _forget(self, uid: str) -> None:
        self._due.discard(uid)
        for by_uid in (self._returned, self._gone, self._traces, self._failed):
            by_uid.pop(uid, None)

    # -- events

    def _on_source_changed(self, old: Source | None, new: Source | None) -> None:
        source = new if new is not None else old
        assert source is not None, "one of them is there"
        uid = source.metadata.uid
        if uid in self._known:
            if new is None:
                self._known.discard(uid)
        elif self._is_part(source):
            return
        elif new is None:
            self._record_deletion(uid, _Gone(self._make_record(source), self._read_clock()))
        elif uid not in self._returned and _is_over(new):
            self._mark_due(uid)

    def _record_deletion(self, uid: str, gone: _Gone) -> None:
        self._gone[uid] = gone
        self._mark_due(uid)

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None, "one of them is there"
        for uid in self._find_runs(pod):
            if new is None:
                self._traces[uid] = self._traces.get(uid, NO_TRACE) + sum_traces([pod])
                self._keep_failed(uid, pod)
                is_news = not self._pods.by(BY_JOB, *job_key(pod))  # the last one
            else:
                is_news = _read_reported_usage(new) != (_read_reported_usage(old) if old is not None else "")
            if is_news and (uid in self._returned or uid in self._gone):
                self._mark_due(uid)

    def _keep_failed(self, uid: str, pod: Pod) -> None:
        """Remember a failed pod that is deleted before its run is returned, because it shows why the run failed."""
        failed = self._failed.get(uid, ())
        if uid in self._due and uid not in self._returned and pod.status.phase == "Failed":
            self._failed[uid] = (*failed, pod)[:_MOST_FAILED]

    def _read_clock(self) -> datetime:
        """Return the current time in whole seconds, like all times of the API."""
        return self._clock.now().replace(microsecond=0)

    def _mark_due(self, uid: str) -> None:
        self._due.add(uid)
        self._changed()

    # -- ownership

    def _find_runs(self, pod: Pod) -> list[str]:
        """Return the UIDs of the runs that a pod is part of, except runs that are already final."""
        uid, namespace = job_of(pod)[0], pod.metadata.namespace
        gone = [self._gone[uid].subject] if uid in self._gone else []
        jobs = [*gone, *self._sets.by(_BY_UID, uid), *self._jobs.by(_BY_UID, uid)]
        if jobs:  # anybody may name the UID of a job of another namespace
            uids = [uid] if any(job.metadata.namespace == namespace for job in jobs) else []
        else:
            uids = [one.metadata.uid for one in self._workloads.by(BY_OWNER, uid) if not self._is_part(one)]
        return [one for one in uids if one not in self._known]

    def _find_subject(self, uid: str) -> JobRecord | Workload | None:
        sources: list[Source] = [*self._sets.by(_BY_UID, uid), *self._jobs.by(_BY_UID, uid)]
        sources += self._workloads.by(_BY_UID, uid)
        return self._make_record(sources[0]) if sources else None

    def _make_record(self, source: Source) -> JobRecord | Workload:
        if isinstance(source, Workload):
            return source
        return record_of(source, self._jobs.by(BY_OWNER, own_key(source.metadata)))

    def _find_pods(self, subject: JobRecord | Workload) -> list[Pod]:
        if isinstance(subject, JobRecord):
            return list(self._pods.by(BY_JOB, own_key(subject.metadata)))
        keys = [owner_key(subject.metadata.namespace, uid) for uid in sorted(owner_uids(subject))]
        return [pod for key in keys for pod in self._pods.by(BY_JOB, key)]

    def _is_part(self, source: Source) -> bool:
        """Return whether a source is part of another run: a JobSet's Job, a job's Workload, or a Workload's variant."""
        if isinstance(source, Workload):
            if is_variant(source):
                return True
            kinds = any(JOB.is_of(one) or JOB_SET.is_of(one) for one in source.metadata.owner_references)
            return kinds or any(
                self._jobs.by(_BY_UID, uid) or self._sets.by(_BY_UID, uid) for uid in owner_uids(source)
            )
        above = controller_of(source.metadata)
        return above is not None and JOB_SET.is_of(above)


def _read_reported_usage(pod: Pod) -> str:
    """Return the usage annotation that the node wrote when the pod finished; "" without one."""
    return pod.metadata.annotations.get(USAGE_ANNOTATION, "")


def _is_over(source: Source) -> bool:
    conditions = source.status.conditions
    if isinstance(source, Workload):
        return find_true(conditions, FINISHED) is not None
    return any(one.status == "True" and one.type in ("Complete", "Completed", "Failed") for one in conditions)


def _is_pod_of(subject: JobRecord | Workload, pod: Pod) -> bool:
    uids = {subject.metadata.uid} if isinstance(subject, JobRecord) else owner_uids(subject)
    return pod.metadata.namespace == subject.metadata.namespace and job_of(pod)[0] in uids


@ignores_status
def job_key(pod: Pod) -> tuple[str]:
    """Return a pod's key for the index BY_JOB: its namespace and the UID of its job."""
    return (owner_key(pod.metadata.namespace, job_of(pod)[0]),)


@ignores_status
def _index_by_uid(obj: Source | Pod) -> tuple[str]:
    return (obj.metadata.uid,)


@ignores_status
def owner_keys(job: Job) -> tuple[str, ...]:
    """Return a job's keys for the index BY_OWNER: its namespace and the UID of each owner."""
    return tuple(owner_key(job.metadata.namespace, owner.uid) for owner in job.metadata.owner_references)
