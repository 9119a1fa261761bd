"""The size of elastic Jobs when quota is short: `queueing.sizing` decides, here it is written on the Jobs.

The Workloads follow their Jobs, and quota follows the Workloads; so a shrink that is under way is found again, and
nothing more is asked for. Where nodes, not quota, are short, the scheduler does the same.
"""

from collections.abc import Iterable

from muster.api.batch import JOB, Job
from muster.api.core import POD
from muster.api.elastic import ELASTIC_ANNOTATION
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import EXCEEDS_MAX_QUOTA, WAITING_FOR_QUOTA
from muster.api.status import ApiError
from muster.controllers.job.claims import BY_CONTROLLER, by_controller
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.scheduler.sizes import elastic_bounds, ended_indexes, least_size, resizing
from muster.jobs.conditions import announced, finish
from muster.queueing.cycle import Outcome
from muster.queueing.growth import SUFFIX
from muster.queueing.model import Workload as Claim
from muster.queueing.nomination import nominate
from muster.queueing.sizing import Elastic, smaller
from muster.runtime.controller import Result
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, reference
from muster.runtime.recorder import Recorder

# A workload that waits for less is let in by others that end.
GATHER_SECONDS = 0.2

_ELASTIC = "elastic"
_SHORT = (WAITING_FOR_QUOTA, EXCEEDS_MAX_QUOTA)


class ElasticQuota:
    """Runs under a `Manager`; `cycled` tells it of each admission cycle."""

    name = "elastic-quota"

    def __init__(self, manager: Manager, cache: QueueingCache, recorder: Recorder) -> None:
        self._client = manager.client
        self._cache = cache
        self._recorder = recorder
        self._jobs = manager.informer(JOB)
        self._pods = manager.informer(POD, indexes={BY_CONTROLLER: by_controller})
        self._workloads = manager.informer(WORKLOAD, indexes={_ELASTIC: _is_elastic})
        self._controller = manager.controller(self.name, self._reconcile)

    async def run(self) -> None:
        """Resize until `stop`."""
        await self._controller.run()

    async def stop(self) -> None:
        """Finish what is being written."""
        await self._controller.stop()

    def cycled(self, outcome: Outcome, seconds: float) -> None:  # noqa: ARG002  (metrics want to know)
        """Those who wait for quota may be helped by elastic ones."""
        if not self._workloads.by(_ELASTIC, ""):
            return
        for pending in outcome.pending:
            if pending.reason in _SHORT and not pending.workload.key.endswith(SUFFIX):
                self._controller.queue.add_after(pending.workload.key, GATHER_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        cache = self._cache
        position, note = cache.queues.position(key), cache.queues.why(key)
        if (
            position is None
            or note is None
            or note.reason not in _SHORT
            or position.workload.queue not in cache.tree.queues
        ):
            return None
        waiting = position.workload
        obj = self._workloads.get(key)
        job = self._job_of(obj) if obj is not None else None
        least = self._least(job) if job is not None else None
        holders = [one for workload in self._workloads.by(_ELASTIC, "") if (one := self._view(workload)) is not None]

        def fits(claim: Claim) -> bool:
            return nominate(cache.tree, claim, cache.flavors, cache.settings).fits

        sizes = smaller(cache.tree, waiting, least, holders, fits)
        for resized, size in sizes.items():
            why = f"quota for {size} is free" if resized == key else f"to make room for {key}"
            await self._resize(resized, size, why)
        return None

    def _view(self, workload: Workload) -> Elastic | None:
        """What the decision has to know of one that holds quota; None if it may not be made smaller."""
        claim, job = self._cache.tree.holder(key_of(workload)), self._job_of(workload)
        admission = workload.status.admission
        if claim is None or claim.evicted or job is None or admission is None or len(claim.podsets) != 1:
            return None
        least, size = self._least(job), admission.pod_set_assignments[0].count or 0
        usage = claim.usage or {}
        if least is None or size <= least or any(amount % size for amount in usage.values()):
            return None
        pod = {fr: amount // size for fr, amount in usage.items()}
        return Elastic(claim.key, claim.queue, claim.priority, claim.created, size, least, pod)

    def _job_of(self, workload: Workload) -> Job | None:
        meta = workload.metadata
        for owner in meta.owner_references:
            if owner.controller and owner.kind == JOB.kind and owner.api_version == JOB.api_version:
                job = self._jobs.get(f"{meta.namespace}/{owner.name}")
                return job if job is not None and job.metadata.uid == owner.uid else None
        return None

    def _least(self, job: Job) -> int | None:
        """How small the Job may be made; None if it is not elastic, or ends."""
        if finish(job) is not None or announced(job) is not None or job.metadata.deletion_timestamp is not None:
            return None
        try:
            bounds = elastic_bounds(job)
        except ValueError:  # the scheduler has told the user
            return None
        ended = ended_indexes(job, self._pods.by(BY_CONTROLLER, job.metadata.uid))
        return least_size(bounds, ended) if bounds is not None else None

    async def _resize(self, key: str, size: int, why: str) -> None:
        workload = self._workloads.get(key)
        job = self._job_of(workload) if workload is not None else None
        if job is None or (job.spec.completions or 0) <= size:  # it is under way
            return
        try:
            await self._client.patch(JOB, job.metadata.name, resizing(job, size), job.metadata.namespace)
        except ApiError as error:
            if error.code not in (404, 422):
                raise
            self._recorder.event(reference(JOB, job), "Warning", "ResizeRefused", f"Not shrunk to {size}: {error}")
            return
        message = f"Shrunk from {job.spec.completions} to {size} workers: {why}"
        self._recorder.event(reference(JOB, job), "Normal", "Shrunk", message)


def _is_elastic(workload: Workload) -> Iterable[str]:
    return [""] if ELASTIC_ANNOTATION in workload.metadata.annotations else []
