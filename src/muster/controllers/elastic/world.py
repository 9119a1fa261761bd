"""Keep the *world* (size and epoch) of each elastic Job on the Job and its pods; `muster.jobs.job.world` decides.

The Job is written first, and its pods only after the cache shows the Job's new world. So after a crash the same world
is written again. Every write names the object version that the decision read, so no pod returns to an older world.
"""

import asyncio
from typing import Any

from muster.api.batch import JOB, Job
from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.ours.elastic import ELASTIC_ANNOTATION, WORLD_ANNOTATION
from muster.api.pods import is_active, job_reference
from muster.controllers.job import claims
from muster.jobs.job.world import has_world, make_announcement, make_world_annotations, pod_annotations
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import ignores_status, own_key
from muster.runtime.refusals import ignoring

WORKERS = 5
# Concurrent writes to the pods of one Job: enough to fill the server's group commits.
AT_ONCE = 64


class WorldController(Reconciler):
    """The reconciler of the world of elastic Jobs: which ranks exist, and how many.

    A change of size costs one write for the Job and one for every remaining pod.
    """

    name = "elastic-world"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager, workers=WORKERS)
        self._jobs = manager.informer(JOB)
        self._pods = manager.informer(POD, indexes={claims.BY_CONTROLLER: claims.by_controller})
        self._controller.watch(self._jobs, when=_concerns)
        self._controller.watch(self._pods, _index_by_job, when=self._differs)

    def _differs(self, _old: Pod | None, new: Pod | None) -> bool:
        """Return whether the annotations of the pod differ from its Job's world.

        For a pod of an unknown Job, return False until the Job is known.
        """
        if new is None or not is_active(new):
            return False
        return any(
            (job := self._jobs.get(key)) is not None and has_world(job) and _read_world(job) != _read_world(new)
            for key in _index_by_job(new)
        )

    async def _reconcile(self, key: str) -> Result:
        job = self._jobs.get(key)
        if job is None:
            return None
        news = make_announcement(job, self._pods.by(claims.BY_CONTROLLER, own_key(job.metadata)))
        if news is None:
            return None
        if news.on_job:
            await self._annotate(JOB, job, make_world_annotations(news.world))
            return None  # the change triggers another reconcile
        for start in range(0, len(news.on_pods), AT_ONCE):
            pods = news.on_pods[start : start + AT_ONCE]
            batch = [self._annotate(POD, pod, pod_annotations(pod, news.world)) for pod in pods]
            refusals = [answer for answer in await asyncio.gather(*batch, return_exceptions=True) if answer is not None]
            if refusals:
                raise refusals[0]
        return None

    async def _annotate(self, kind: Kind[Any], obj: Job | Pod, changes: dict[str, str]) -> None:
        """Write these annotations on a Job or pod.

        Raises `ApiError` (Conflict) if the object has changed since it was read.
        """
        with ignoring("NotFound"):
            await self._client.patch_object(kind, obj, {"metadata": {"annotations": changes}})


@ignores_status
def _index_by_job(pod: Pod) -> tuple[str, ...]:
    """Return the key of the Job that controls the pod."""
    owner = job_reference(pod)
    return (f"{pod.metadata.namespace}/{owner.name}",) if owner is not None else ()


def _read_world(obj: Job | Pod) -> str:
    return obj.metadata.annotations.get(WORLD_ANNOTATION, "")


def _concerns(old: Job | None, new: Job | None) -> bool:
    if new is None or not has_world(new):
        return False
    return old is None or _extract_facts(old) != _extract_facts(new)


def _extract_facts(job: Job) -> tuple[Any, ...]:
    return job.metadata.uid, job.spec.completions, ELASTIC_ANNOTATION in job.metadata.annotations, _read_world(job)
