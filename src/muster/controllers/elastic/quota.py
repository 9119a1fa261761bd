"""Resize elastic Jobs when quota is short.

`queueing.elastic.sizing` decides the sizes; this controller writes them to the Jobs. A Job's Workload follows the size
of the Job, and the used quota follows the Workload. So the controller observes its own shrink while the shrink is under
way, and does not request it twice. The scheduler resizes Jobs if nodes are short.

The scheduler also grows Jobs, without regard to quota. So the controller writes each size that it decides to the Job as
a cap (`elastic-cap`). It shrinks a Job that the scheduler has grown beyond its quota, and raises the cap when there is
more quota.
"""

from collections.abc import Callable, Iterable, Mapping

from muster.api.batch import JOB, Job
from muster.api.core import POD
from muster.api.kueue import WORKLOAD, Workload
from muster.api.ours.elastic import CAP_ANNOTATION, ELASTIC_ANNOTATION, cap_of
from muster.api.status import ApiError
from muster.controllers.elastic.decisions import QUOTA, Resized
from muster.controllers.elastic.placement import (
    elastic_bounds,
    ended_indexes,
    least_size,
    make_resize_patch,
    subject_of,
)
from muster.controllers.job.claims import BY_CONTROLLER, by_controller
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.decisions import subject_of as subject_of_workload
from muster.jobs.job.conditions import find_announced_end, finish
from muster.queueing.elastic.growth import count_granted_pods, grow_by
from muster.queueing.elastic.sizing import (
    SHORT_REASONS,
    ElasticWorkload,
    count_affordable,
    describe_holder,
    find_smaller_sizes,
    list_claims,
)
from muster.queueing.model import WorkloadInfo as Claim
from muster.queueing.quota.trial import assume_usage
from muster.queueing.scheduling.cycle import CycleOutcome, CyclePreemption
from muster.queueing.scheduling.nomination import nominate
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, key_of, make_reference, own_key

# Other workloads usually end within this time, and then no Job has to shrink.
GATHER_SECONDS = 0.2

_ELASTIC = "elastic"
_CAPPED = "capped"
_CAPS = "caps"  # not the key of a workload, which contains a namespace


class ElasticQuota(Reconciler):
    """The reconciler that shrinks elastic Jobs for pending workloads, and raises the Jobs' caps.

    Its keys are the keys of pending workloads and of elastic workloads. The admission controller calls `on_cycle` after
    each cycle, and `shrinks_instead` before it evicts.
    """

    name = "elastic-quota"

    def __init__(
        self, manager: Manager, cache: QueueingCache, recorder: Recorder, record: Callable[[Resized], None]
    ) -> None:
        """Create the reconciler.

        record: called with each new size.
        """
        super().__init__(manager)
        self._cache = cache
        self._recorder = recorder
        self._record = record
        self._jobs = manager.informer(JOB, indexes={_CAPPED: _index_capped})
        self._jobs.on_change(self._on_job_changed)
        self._pods = manager.informer(POD, indexes={BY_CONTROLLER: by_controller})
        self._workloads = manager.informer(WORKLOAD, indexes={_ELASTIC: _index_elastic})
        self._waiting_for_shrinks: set[str] = set()  # workloads for which others shrink, so that none is evicted
        self._waited_in_vain: set[str] = set()  # workloads that waited for such a shrink without success
        self._refused: dict[str, int] = {}  # generations of Jobs whose resize the server refused, by UID
        self._changed: set[str] = set()  # ClusterQueues whose usage changed since the last pass over caps; "" is any
        cache.notifier.on_change(self._on_usage_changed)

    def on_cycle(self, outcome: CycleOutcome, seconds: float) -> None:  # noqa: ARG002  (metrics want to know)
        """Queue the pending workloads of a cycle for which elastic workloads may shrink.

        Workloads whose victims the cycle spared are queued at once. Workloads that lack quota are queued after
        `GATHER_SECONDS`.
        """
        for decision in outcome.spared:
            self._waiting_for_shrinks.add(decision.workload.key)
            self._controller.queue.add(decision.workload.key)
        if not self._workloads.by(_ELASTIC, ""):
            return
        for pending in outcome.pending:
            if pending.reason in SHORT_REASONS:
                self._controller.queue.add_after(pending.workload.key, GATHER_SECONDS)

    def shrinks_instead(self, decision: CyclePreemption) -> bool:
        """Return whether elastic workloads will shrink, so that `cycle.run` spares the victims of this decision.

        Return False if a victim is being evicted already, or if the workload waited for shrinks before without success.
        The latter can happen because the cycle counts terminating workloads as gone, so a shrink that suffices in the
        cycle may not suffice yet.
        """
        if not self._workloads.by(_ELASTIC, ""):
            return False
        if decision.workload.key in self._waited_in_vain:
            self._waited_in_vain.discard(decision.workload.key)
            return False
        holders = [self._cache.tree.holder(victim.workload.key) for victim in decision.victims]
        return all(one is not None and not one.evicted for one in holders) and bool(self._find_sizes(decision.workload))

    def _on_usage_changed(self, cluster_queue: str, local_queue: str) -> None:  # noqa: ARG002  (a listener's)
        """Queue a pass over the caps, because there may be more quota for the capped Jobs."""
        if not cluster_queue or self._jobs.by(_CAPPED, ""):
            self._changed.add(cluster_queue)
            self._controller.queue.add_after(_CAPS, GATHER_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        self._cache.settle_quotas()
        if key == _CAPS:
            await self._raise_caps()
        elif (growth := self._find_pending(key)) is not None and growth.growth_of:
            await self._shrink_to_quota(growth)
        else:
            await self._make_room(key)
        return None

    # Shrinking Jobs for pending workloads.

    async def _make_room(self, key: str) -> None:
        """Shrink Jobs so that the pending workload with this key can start.

        The workload's own Job may be among the Jobs that shrink.
        """
        cache, instead = self._cache, key in self._waiting_for_shrinks
        waiting = self._find_pending(key, instead=instead)
        sizes = self._find_sizes(waiting) if waiting is not None else {}
        helped = False
        for resized, size in sizes.items():
            why = f"quota for {size} is free" if resized == key else f"to make room for {key}"
            helped |= await self._resize(resized, size, why, helps="" if resized == key else key)
        self._waiting_for_shrinks.discard(key)
        if instead and not helped and waiting is not None:  # a workload must be evicted
            self._waited_in_vain.add(key)
            cache.queues.retry(waiting.queue)
            cache.notifier.wake()

    def _find_pending(self, key: str, *, instead: bool = False) -> Claim | None:
        """Return the pending workload with this key, if it waits because quota is short; otherwise None.

        instead: also return a workload that waits for any other reason, such as evictions.
        """
        cache = self._cache
        position, note = cache.queues.position(key), cache.queues.why(key)
        if position is None or note is None or position.workload.queue not in cache.tree.queues:
            return None
        return position.workload if note.reason in SHORT_REASONS or instead else None

    def _find_sizes(self, waiting: Claim) -> Mapping[str, int]:
        """Return smaller sizes of elastic workloads, by key, with which the pending workload fits.

        The result is empty if there are no such sizes.
        """
        obj = self._workloads.get(waiting.key)
        job = self._find_job(obj) if obj is not None else None
        least = self._find_least(job) if job is not None else None
        if job is not None and self._is_refused(job):
            least = None
        holders = [
            one
            for workload in self._workloads.by(_ELASTIC, "")
            if (one := self._describe_workload(workload)) is not None
        ]
        return find_smaller_sizes(self._cache.tree, waiting, least, holders, self._fits)

    def _fits(self, claim: Claim) -> bool:
        cache = self._cache
        return nominate(cache.tree, claim, cache.flavors, cache.settings).fits

    # Limiting growth to quota.

    async def _shrink_to_quota(self, growth: Claim) -> None:
        """Shrink a running Job that was grown beyond its quota to the size for which there is quota.

        growth: the pending workload that requests the additional pods.
        """
        workload = self._cache.latest(growth.growth_of)
        if workload is None or len(growth.podsets) != 1 or workload.status.admission is None:
            return
        job = self._find_job(workload)
        if job is None or self._find_least(job) is None:
            return
        with assume_usage(more=list_claims(self._cache.tree, self._cache.queues.parked)):
            size = _count_granted(workload) + count_affordable(growth, self._fits)
        await self._resize(key_of(workload), size, f"there is quota for {size}")

    async def _raise_caps(self) -> None:
        """Raise the caps of Jobs whose quota allows more."""
        changed, self._changed = self._changed, set()
        queues = self._cache.tree.queues
        names = changed if "" not in changed else queues.keys()
        roots = {queues[name].root for name in names if name in queues}
        try:
            for workload in self._workloads.by(_ELASTIC, ""):
                claim = self._cache.tree.holder(key_of(workload))
                if claim is not None and claim.queue in queues and queues[claim.queue].root in roots:
                    await self._raise_cap(claim)
        except ApiError:
            self._changed |= changed
            raise

    async def _raise_cap(self, claim: Claim) -> None:
        workload = self._cache.latest(claim.key)
        job = self._find_job(workload) if workload is not None else None
        cap = cap_of(job.metadata.annotations) if job is not None else None
        if workload is None or job is None or cap is None or self._find_least(job) is None or claim.evicted:
            return
        bounds, size = elastic_bounds(job), _count_granted(workload)
        if bounds is None or not size or (job.spec.completions or 0) > size:  # its pending request comes first
            return
        allowed = size + self._count_affordable_pods(claim, workload, bounds.most - size)
        if allowed <= cap:
            return
        annotations = {CAP_ANNOTATION: str(allowed) if allowed < bounds.most else None}
        try:
            await self._client.patch_object(JOB, job, {"metadata": {"annotations": annotations}})
        except ApiError as error:
            if error.code not in (403, 404, 422):
                raise
            self._recorder.event(
                make_reference(JOB, job), "Warning", "ResizeRefused", f"Still capped at {cap}: {error}"
            )

    def _count_affordable_pods(self, claim: Claim, workload: Workload, most: int) -> int:
        """Return for how many more pods of a running workload there is quota."""
        admission = workload.status.admission
        if most <= 0 or admission is None or len(claim.podsets) != 1:
            return 0
        growth = grow_by(claim, most, admission.pod_set_assignments[0].flavors)
        with assume_usage(more=list_claims(self._cache.tree, self._cache.queues.parked)):
            return count_affordable(growth, self._fits)

    # Jobs and their Workloads.

    def _describe_workload(self, workload: Workload) -> ElasticWorkload | None:
        """Return a workload with quota as input for `sizing`; None if the workload must not shrink."""
        claim, job = self._cache.tree.holder(key_of(workload)), self._find_job(workload)
        admission = workload.status.admission
        if claim is None or job is None or admission is None or self._is_refused(job):
            return None
        return describe_holder(claim, admission.pod_set_assignments[0].count or 0, self._find_least(job))

    def _find_job(self, workload: Workload) -> Job | None:
        meta = workload.metadata
        for owner in meta.owner_references:
            if owner.controller and JOB.is_of(owner):
                job = self._jobs.get(f"{meta.namespace}/{owner.name}")
                return job if job is not None and job.metadata.uid == owner.uid else None
        return None

    def _find_least(self, job: Job) -> int | None:
        """Return the minimum size of the Job; None if it is not elastic, has ended or is being deleted."""
        if (
            finish(job) is not None
            or find_announced_end(job) is not None
            or job.metadata.deletion_timestamp is not None
        ):
            return None
        try:
            bounds = elastic_bounds(job)
        except ValueError:  # the scheduler records an event about it
            return None
        ended = ended_indexes(job, self._pods.by(BY_CONTROLLER, own_key(job.metadata)))
        return least_size(bounds, ended) if bounds is not None else None

    def _is_refused(self, job: Job) -> bool:
        return self._refused.get(job.metadata.uid) == job.metadata.generation

    def _on_job_changed(self, old: Job | None, new: Job | None) -> None:
        if old is None and new is not None and CAP_ANNOTATION in new.metadata.annotations:
            self._on_usage_changed("", "")  # earlier changes are unknown, so all caps are checked
        if new is None and old is not None:
            self._refused.pop(old.metadata.uid, None)

    async def _resize(self, key: str, size: int, why: str, helps: str = "") -> bool:
        """Shrink the Job of a workload to this size, because quota is short.

        why: the reason, for the Job's event.
        helps: the key of the workload for which the Job shrinks.

        Return whether the Job has been shrunk, or is about to be.
        """
        workload = self._workloads.get(key)
        job = self._find_job(workload) if workload is not None else None
        if workload is None or job is None or self._is_refused(job):
            return False
        if (job.spec.completions or 0) <= size:  # the resize is under way
            return True
        patch = make_resize_patch(job, size)
        patch["metadata"]["annotations"][CAP_ANNOTATION] = str(size)
        try:
            await self._client.patch_object(JOB, job, patch)
        except ApiError as error:
            if error.code not in (403, 404, 422):
                raise
            self._refused[job.metadata.uid] = job.metadata.generation
            self._recorder.event(make_reference(JOB, job), "Warning", "ResizeRefused", f"Not shrunk to {size}: {error}")
            return False
        message = f"Shrunk from {job.spec.completions} to {size} workers: {why}"
        self._recorder.event(make_reference(JOB, job), "Normal", "Shrunk", message)
        queue = workload.status.admission.cluster_queue if workload.status.admission is not None else ""
        helped = self._workloads.get(helps)
        names = () if not helps else (subject_of_workload(helped).job if helped is not None else helps,)
        old = job.spec.completions or 0
        self._record(Resized(subject_of(job), old, size, QUOTA, why, names, queue))
        return True


def _count_granted(workload: Workload) -> int:
    return sum(count_granted_pods(workload).values())


def _index_capped(job: Job) -> Iterable[str]:
    return [""] if CAP_ANNOTATION in job.metadata.annotations else []


@ignores_status
def _index_elastic(workload: Workload) -> Iterable[str]:
    return [""] if ELASTIC_ANNOTATION in workload.metadata.annotations else []
