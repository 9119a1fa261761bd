"""Write a plan in order: deletions, objects that the Jobs need, changes, creations, and last the status.

If the server refuses one object, the others are still written; the first error is raised after all other writes. The
writer counts, for each Job, how many times in a row the server refused to write it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from muster.api.batch import JOB, Job
from muster.api.core import PERSISTENT_VOLUME_CLAIM, SERVICE, PersistentVolumeClaim, Service
from muster.api.jobset import JOB_SET, JobSet, JobSetStatus
from muster.api.kinds import Kind
from muster.api.notes import Note
from muster.api.status import ApiError
from muster.controllers.jobset.owned import jobset_reference
from muster.jobs.jobset.plan import JobChange
from muster.runtime.client import Client
from muster.runtime.control.ownwrites import Expectations
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import make_reference, merge_patch
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import TransportError
from muster.runtime.writes import Refusal, Writes

# The maximum number of concurrent requests for all JobSets.
AT_ONCE = 128
# The size of the first batch of a JobSet's Jobs.
FIRST_BATCH = 8

T = TypeVar("T")


class Writer:
    """The writer of JobSets' plans."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._writes = Writes(AT_ONCE)

    def record_event(self, jobset: JobSet, note: Note) -> None:
        """Record an event about the JobSet."""
        self._recorder.event(make_reference(JOB_SET, jobset), note.type, note.reason, note.message)

    async def delete(self, jobs: Sequence[Job], expected: Expectations, refused: Counter[str]) -> list[Refusal]:
        """Delete Jobs, each after its pods; return the server's refusals."""

        async def delete(job: Job) -> None:
            meta = job.metadata
            with ignoring("NotFound"):
                await self._client.delete(JOB, meta.name, meta.namespace, propagation="Foreground", uid=meta.uid)
                expected.going.add(meta.uid)
                return
            expected.gone.add(meta.uid)

        return _count_refusals(jobs, await self._writes.each(delete, jobs), refused)

    async def serve(self, jobset: JobSet, service: Service) -> list[Refusal]:
        """Create the Service; return the server's refusals.

        If a Service of that name exists, it is used, even if another client created it.
        """
        return await self._make(jobset, SERVICE, [service], "HeadlessServiceCreationFailed")

    async def claim(self, jobset: JobSet, claims: Sequence[PersistentVolumeClaim]) -> list[Refusal]:
        """Create the volume claims; return the server's refusals. An existing claim is used."""
        return await self._make(jobset, PERSISTENT_VOLUME_CLAIM, claims, "PVCCreationFailed")

    async def change(
        self, changes: Sequence[JobChange], expected: Expectations, refused: Counter[str]
    ) -> list[Refusal]:
        """Patch Jobs, if they have the versions that the decision read.

        Servers before 1.35 let the template of a suspended Job change only while the Job has no start time, so the
        writer removes the start time first.
        """

        async def patch(change: JobChange) -> None:
            wanted, job = merge_patch(change.wanted, change.job), change.job
            with ignoring("NotFound"):
                if "template" in wanted.get("spec", {}) and job.status.start_time is not None:
                    reset = {"status": {"startTime": None}}
                    job = await self._client.patch_object(JOB, job, reset, subresource="status")
                expected.wrote(await self._client.patch_object(JOB, job, wanted))

        answers = await self._writes.each(patch, changes)
        return _count_refusals([change.job for change in changes], answers, refused)

    async def create(
        self, jobset: JobSet, jobs: Sequence[Job], expected: Expectations, refused: Counter[str]
    ) -> list[Refusal]:
        """Create Jobs; return the server's refusals.

        The Jobs are created in batches that double in size, so that few requests are made if the server refuses all.
        After a batch in which no Job was created, the rest is left to the next decision, which tries as many again. If
        another Job already has the name, the cache shows it at the next reconcile.
        """
        errors: list[Refusal] = []
        start, size = 0, max(FIRST_BATCH, len(refused))
        while start < len(jobs):
            batch = jobs[start : start + size]
            answers = await self._writes.each(self._create, batch)
            for answer in answers:
                if isinstance(answer, Job):
                    expected.wrote(answer)
            refusals = _count_refusals(batch, answers, refused)
            errors += refusals
            if len(refusals) == len(batch):
                break
            start, size = start + size, size * 2
        errors = [error for error in errors if not (isinstance(error, ApiError) and error.is_namespace_terminating)]
        if failures := [error for error in errors if not is_refusal(error, "AlreadyExists")]:
            self.record_event(jobset, Note("Warning", "JobCreationFailed", str(failures[0])))
        return errors

    async def store(self, jobset: JobSet, status: JobSetStatus, expected: Expectations) -> None:
        """Store the changed fields of the status.

        Raises `ApiError` (Conflict) if the JobSet has changed since it was read.
        """
        patch = {"status": merge_patch(status, jobset.status)}
        expected.wrote_owner(await self._client.patch_object(JOB_SET, jobset, patch, subresource="status"))

    async def _make(self, jobset: JobSet, kind: Kind[T], things: Iterable[T], reason: str) -> list[Refusal]:
        """Create missing objects, and use existing ones; return the server's refusals.

        A failure is recorded as an event with that reason.
        """

        async def create(thing: T) -> None:
            with ignoring("AlreadyExists"):
                await self._client.create(kind, thing)

        errors = [answer for answer in await self._writes.each(create, things) if answer is not None]
        if errors:
            self.record_event(jobset, Note("Warning", reason, str(errors[0])))
        return errors

    async def _create(self, job: Job) -> Job:
        """Return the created Job. An existing Job of the same JobSet counts as created."""
        try:
            return await self._client.create(JOB, job)
        except ApiError as error:
            if not is_refusal(error, "AlreadyExists"):
                raise
            existing = await self._client.find(JOB, job.metadata.name, job.metadata.namespace)
            if existing is None or jobset_reference(existing) != jobset_reference(job):
                raise
            return existing


def _count_refusals(jobs: Iterable[Job], answers: Iterable[object], refused: Counter[str]) -> list[Refusal]:
    """Return the refusals among the answers; count them by Job, and reset the counts of the written Jobs."""
    refusals: list[Refusal] = []
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, ApiError | TransportError):
            refused[job.metadata.name] += 1
            refusals.append(answer)
        else:
            refused.pop(job.metadata.name, None)
    return refusals
