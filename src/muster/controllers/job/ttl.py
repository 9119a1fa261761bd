"""Delete finished Jobs with all their dependents, after their `ttlSecondsAfterFinished`."""

from muster.api.batch import JOB, Job
from muster.jobs.job.ttl import find_expiry
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import split_key
from muster.runtime.refusals import ignoring

WORKERS = 5


class TtlController(Reconciler):
    """The reconciler of finished Jobs with a TTL, whichever controller runs them (`managedBy`)."""

    name = "ttl-after-finished"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager, workers=WORKERS)
        self._jobs = manager.informer(JOB)
        self._controller.watch(self._jobs, when=_may_expire)

    async def _reconcile(self, key: str) -> Result:
        job = self._jobs.get(key)
        if (remaining := self._compute_seconds_left(job)) is None or remaining > 0:
            return remaining
        namespace, name = split_key(key)
        with ignoring("NotFound"):
            # The cache may be stale: the TTL may have been raised, or the Job may have been replaced.
            job = await self._client.get(JOB, name, namespace)
            if (remaining := self._compute_seconds_left(job)) is None or remaining > 0:
                return remaining
            meta = job.metadata
            await self._client.delete(
                JOB,
                name,
                namespace,
                propagation="Foreground",
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        return None

    def _compute_seconds_left(self, job: Job | None) -> float | None:
        """Return how many seconds remain until the Job is deleted; None if it does not expire."""
        moment = find_expiry(job) if job is not None else None
        return None if moment is None else max(0.0, (moment - self._clock.now()).total_seconds())


def _may_expire(old: Job | None, new: Job | None) -> bool:
    return new is not None and find_expiry(new) is not None and (old is None or find_expiry(old) != find_expiry(new))
