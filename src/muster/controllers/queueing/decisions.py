"""Record the decisions of the admission cycle, under the names of the jobs of its workloads."""

from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import JOB_UID_LABEL
from muster.api.meta import controller_of
from muster.api.ours.decisions import Decision, Subject
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.queueing.cache import QueueingCache
from muster.queueing.decisions import describe_cycle
from muster.queueing.model import WorkloadInfo
from muster.queueing.scheduling.cycle import CycleOutcome
from muster.runtime.clock import Clock

# The number of workloads whose jobs are kept in memory.
_MOST_SUBJECTS = 50_000


class CycleRecorder:
    """The listener that adds the decisions of admission cycles to a log."""

    def __init__(self, cache: QueueingCache, decisions: DecisionLog, clock: Clock) -> None:
        self._cache = cache
        self._decisions = decisions
        self._clock = clock
        self._subjects: dict[str, Subject] = {}  # the job, by the UID of its workload

    def on_cycle(self, outcome: CycleOutcome, seconds: float) -> None:  # noqa: ARG002  (metrics want to know)
        """Record the outcome of a cycle."""
        decisions = self._decisions
        records = describe_cycle(outcome, self._cache.tree, self._find_subject, decisions.is_news, self._clock.now())
        for decision in records:
            decisions.add(decision)

    def record_wait(self, workload: Workload, reason: str, message: str) -> None:
        """Record why a workload waits. The reason may be one that no cycle considers, such as a stopped queue."""
        local = self._cache.local_queues.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}")
        queue = local.spec.cluster_queue if local is not None else ""
        subject = self._find_job(workload)
        self._decisions.add(Decision(self._clock.now(), "Waiting", subject.job, subject.uid, queue, reason, message))

    def _find_subject(self, info: WorkloadInfo) -> Subject:
        """Return the job of a workload in a cycle, or the workload itself if its object is gone."""
        cached = self._subjects.get(info.uid)  # a busy queue tries the same workloads in each cycle
        if cached is not None:
            return cached
        workload = self._cache.workloads.get(info.whole)
        if workload is None:
            return Subject(info.whole, info.uid)
        if len(self._subjects) >= _MOST_SUBJECTS:
            self._subjects.clear()
        subject = self._subjects[info.uid] = self._find_job(workload)
        return subject

    def _find_job(self, workload: Workload) -> Subject:
        """Return the job of a workload; for a variant, the job of the variant's parent."""
        owner = controller_of(workload.metadata)
        if owner is not None and WORKLOAD.is_of(owner):  # a variant: the job is its parent's
            workload = self._cache.workloads.get(f"{workload.metadata.namespace}/{owner.name}") or workload
        return subject_of(workload)


def subject_of(workload: Workload) -> Subject:
    """Return the job of a workload; the workload itself if it was made for a group of pods."""
    meta, owner = workload.metadata, controller_of(workload.metadata)
    if owner is None:
        return Subject(f"{meta.namespace}/{meta.name}", meta.labels.get(JOB_UID_LABEL) or meta.uid)
    return Subject(f"{meta.namespace}/{owner.name}", owner.uid)
