"""Write a plan: pods first, then the status, then the finalizers. Report the outcome; decide nothing.

One writer serves all Jobs and limits their concurrent writes. If the server refuses one pod, the other pods are still
written; the first error is raised after all other writes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from muster.api.batch import JOB, TRACKING_FINALIZER, UNTRACK, Job, JobStatus
from muster.api.core import POD, Pod
from muster.api.ours.interruptions import SUSPENDED_ANNOTATION
from muster.api.status import ApiError
from muster.jobs.job.plan import Creation, Deletion, Outcome
from muster.jobs.job.pods import PodTemplate
from muster.runtime.client import Client
from muster.runtime.control.ownwrites import Expectations
from muster.runtime.events.recorder import EventType, Recorder
from muster.runtime.objects import make_reference
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import STRATEGIC_MERGE_PATCH
from muster.runtime.writes import Refusal, Writes

# The maximum number of concurrent requests for all Jobs: enough to fill the server's group commits.
AT_ONCE = 256
# The maximum number of pods of one Job with an event each; further pods are counted in one event.
_TOLD = 10


class WriteReport(Struct):
    """The outcome of creating or deleting pods."""

    outcome: Outcome
    errors: list[Refusal] = field(default_factory=list)


class Writer:
    """The writer that carries out the plans of all Jobs."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._writes = Writes(AT_ONCE)

    def record_event(self, job: Job, type: EventType, reason: str, message: str) -> None:
        """Record an event about the Job."""
        self._recorder.event(make_reference(JOB, job), type, reason, message)

    async def create(self, job: Job, creations: Sequence[Creation], expected: Expectations) -> WriteReport:
        """Create pods; return the outcome.

        The pods are created in batches of 1, 2, 4, ..., so that few requests are made if the server refuses all. After
        a batch with an error, the next decision creates the remaining pods.

        expected: records the writes, which the caches must show before the next decision.
        """
        template = PodTemplate(job)
        created: list[Pod] = []
        errors: list[Refusal] = []
        start, size = 0, 1
        while start < len(creations) and not errors:
            batch = creations[start : start + size]
            for answer in await self._writes.each(self._create, map(template.pod, batch)):
                if isinstance(answer, Pod):
                    expected.wrote(answer)
                    created.append(answer)
                else:
                    errors.append(answer)
            start, size = start + size, size * 2
        self._record_pods(job, "SuccessfulCreate", "Created", created)
        # A terminating namespace deletes all pods, so there is nothing to report, and a retry is useless.
        errors = [error for error in errors if not (isinstance(error, ApiError) and error.is_namespace_terminating)]
        if errors:
            self.record_event(job, "Warning", "FailedCreate", f"Error creating: {errors[0]}")
        return WriteReport(Outcome(len(created)), errors)

    async def delete(self, job: Job, deletions: Sequence[Deletion], expected: Expectations) -> WriteReport:
        """Delete pods; return the outcome. Surplus pods lose their finalizer first, so that they never count.

        A pod that has changed since the decision is not deleted, because it may have succeeded.
        """

        async def delete(deletion: Deletion) -> Pod:
            pod = deletion.pod
            if deletion.untrack:
                await self._untrack(pod, expected, lock=True)
            elif deletion.suspended:
                mark = {"annotations": {SUSPENDED_ANNOTATION: pod.metadata.uid}}
                await self._patch(pod, mark, expected, lock=True)
            await self._delete(pod, expected)
            expected.going.add(pod.metadata.uid)
            return pod

        answers = await self._writes.each(delete, deletions)
        undeleted = {
            deletion.pod.metadata.uid
            for deletion, answer in zip(deletions, answers, strict=True)
            if not isinstance(answer, Pod)
        }
        errors = [answer for answer in answers if not isinstance(answer, Pod)]
        self._record_pods(job, "SuccessfulDelete", "Deleted", [answer for answer in answers if isinstance(answer, Pod)])
        if failures := [error for error in errors if not is_refusal(error, "Conflict")]:
            self.record_event(job, "Warning", "FailedDelete", f"Error deleting: {failures[0]}")
        return WriteReport(Outcome(0, frozenset(undeleted)), errors)

    async def store(self, job: Job, status: JobStatus, expected: Expectations) -> None:
        """Store the changed fields of the status.

        Raises `ApiError` (Conflict) if the Job has changed since it was read.
        """
        patch = {"status": make_status_patch(job.status, status)}
        expected.wrote_owner(await self._client.patch_object(JOB, job, patch, subresource="status"))

    async def release(self, pods: Iterable[Pod], expected: Expectations) -> list[Refusal]:
        """Remove the finalizers of pods that the stored status counts; return the server's refusals."""

        async def release(pod: Pod) -> None:
            await self._untrack(pod, expected)

        return [answer for answer in await self._writes.each(release, pods) if answer is not None]

    async def change(self, pods: Iterable[Pod], metadata: dict[str, Any], expected: Expectations) -> list[Refusal]:
        """Patch the metadata of exactly these pods, by strategic merge; return the server's refusals."""

        async def change(pod: Pod) -> None:
            await self._patch(pod, metadata, expected)

        return [answer for answer in await self._writes.each(change, pods) if answer is not None]

    async def _create(self, pod: Pod) -> Pod:
        return await self._client.create(POD, pod)

    async def _untrack(self, pod: Pod, expected: Expectations, *, lock: bool = False) -> None:
        if TRACKING_FINALIZER in pod.metadata.finalizers:
            await self._patch(pod, UNTRACK, expected, lock=lock)

    async def _patch(self, pod: Pod, metadata: dict[str, Any], expected: Expectations, *, lock: bool = False) -> None:
        patch = {"metadata": metadata}
        with ignoring("NotFound"):
            stored = await self._client.patch_object(POD, pod, patch, lock=lock, type=STRATEGIC_MERGE_PATCH)
            expected.wrote(stored)
            return
        expected.gone.add(pod.metadata.uid)  # no write is needed, but the cache must show its deletion

    async def _delete(self, pod: Pod, expected: Expectations) -> None:
        with ignoring("NotFound"):
            await self._client.delete_object(POD, pod)
            return
        expected.gone.add(pod.metadata.uid)

    def _record_pods(self, job: Job, reason: str, verb: str, pods: Sequence[Pod]) -> None:
        for pod in pods[:_TOLD]:
            self.record_event(job, "Normal", reason, f"{verb} pod: {pod.metadata.name}")
        if len(pods) > _TOLD:
            self.record_event(job, "Normal", reason, f"{verb} {len(pods) - _TOLD} more pods")


def make_status_patch(old: JobStatus, new: JobStatus) -> dict[str, Any]:
    """Return the merge patch that turns the status `old` into `new`."""
    return _merge_patch(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := _merge_patch(before, value):
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch
