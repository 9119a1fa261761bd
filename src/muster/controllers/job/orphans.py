"""Remove the tracking finalizer from pods that no Job will ever count, because they could not be deleted otherwise.

A pod is an orphan if its Job is deleted or has ended, or if it lost its owner reference and no Job adopts it. A Job
that is missing in the cache may be too new for it, so the controller queries the server.
"""

from muster.api.batch import JOB, UNTRACK, Job
from muster.api.core import Pod
from muster.api.meta import controller_of
from muster.api.pods import job_reference
from muster.controllers.job import claims
from muster.controllers.job.writer import Writer
from muster.jobs.job.conditions import finish
from muster.jobs.job.terms import managed_by
from muster.runtime.control.controller import Controller, Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import Expectations
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of, own_key

WORKERS = 16

# The number of remembered UIDs of deleted Jobs, which save a request for each of their pods.
_REMEMBERED = 10_000

# The seconds until the retry for a pod whose Job exists but is not in the cache yet.
_UNKNOWN_JOB_SECONDS = 1.0


class Orphans:
    """The part of the Job controller that removes the tracking finalizer from orphaned pods.

    The Job of an orphan is deleted or has ended; or the pod has no owner, and no running Job adopts it. The keys of
    the queue are the keys of pods.
    """

    def __init__(
        self, manager: Manager, jobs: Informer[Job], pods: Informer[Pod], writer: Writer, name: str, manages: str
    ) -> None:
        self._client = manager.client
        self._jobs = jobs
        self._pods = pods
        self._writer = writer
        self._manages = manages
        self._deleted: dict[str, None] = {}
        self.controller = Controller(name, self._reconcile, manager.clock, manager.random, workers=WORKERS)

    def job_ended(self, job: Job, *, deleted: bool) -> None:
        """Queue the pods of a Job that has ended or is deleted, because none of them may keep the finalizer."""
        uid = job.metadata.uid
        if deleted:
            self._deleted[uid] = None
            if len(self._deleted) > _REMEMBERED:
                del self._deleted[next(iter(self._deleted))]
        for pod in self._pods.by(claims.BY_CONTROLLER, own_key(job.metadata)):
            self.pod_changed(pod)

    def pod_changed(self, pod: Pod) -> None:
        """Queue the pod, with a delay, if it might be an orphan."""
        if not claims.is_tracked(pod):
            return
        job = self._find_job(pod)
        if job is None or finish(job) is not None:
            self.controller.queue.add(key_of(pod))

    async def _reconcile(self, key: str) -> Result:
        pod = self._pods.get(key)
        if pod is None or not claims.is_tracked(pod):
            return None
        job = self._find_job(pod)
        if job is not None:
            if finish(job) is None or managed_by(job) != self._manages:
                return None
        elif (owner := controller_of(pod.metadata)) is None:
            if any(finish(adopter) is None for adopter in claims.find_adopters(pod, self._jobs)):
                return None
        elif job_reference(pod) is None:
            return None  # the finalizer belongs to another controller
        elif owner.uid not in self._deleted and await self._exists(pod.metadata.namespace, owner.name, owner.uid):
            return _UNKNOWN_JOB_SECONDS
        if errors := await self._writer.change([pod], UNTRACK, Expectations()):
            raise errors[0]
        return None

    def _find_job(self, pod: Pod) -> Job | None:
        owner = job_reference(pod)
        job = self._jobs.get(f"{pod.metadata.namespace}/{owner.name}") if owner else None
        return job if job is not None and owner is not None and job.metadata.uid == owner.uid else None

    async def _exists(self, namespace: str, name: str, uid: str) -> bool:
        job = await self._client.find(JOB, name, namespace)
        return job is not None and job.metadata.uid == uid
