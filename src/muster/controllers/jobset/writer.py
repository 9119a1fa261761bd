"""Writes a plan: what goes, what there has to be, what changes, what is missing, and at last the status.

Whatever the server answers about one object, the others go on; the caller fails with the first error once everything
else is written.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from muster.api.batch import JOB, Job
from muster.api.core import PERSISTENT_VOLUME_CLAIM, SERVICE, PersistentVolumeClaim, Service
from muster.api.jobset import JOB_SET, JobSet, JobSetStatus
from muster.api.kinds import Kind
from muster.api.notes import Note
from muster.api.status import ApiError
from muster.controllers.jobset.owned import jobset_reference
from muster.jobs.jobset.plan import Change
from muster.runtime.client import Client
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import merge_patch, reference
from muster.runtime.ownwrites import Expectations
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.writes import Refusal, Writes

# Requests under way together, over all JobSets.
AT_ONCE = 128
# Jobs of one JobSet that are tried before more are.
FIRST_BATCH = 8

T = TypeVar("T")


class Writer:
    """Performs plans."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self._writes = Writes(AT_ONCE)

    def tell(self, jobset: JobSet, note: Note) -> None:
        """Tell people about the JobSet."""
        self._recorder.event(reference(JOB_SET, jobset), note.type, note.reason, note.message)

    async def delete(self, jobs: Sequence[Job], expected: Expectations) -> list[Refusal]:
        """Delete Jobs, each with its pods before it."""

        async def delete(job: Job) -> None:
            meta = job.metadata
            with ignoring("NotFound"):
                await self._client.delete(JOB, meta.name, meta.namespace, propagation="Foreground", uid=meta.uid)
                expected.going.add(meta.uid)
                return
            expected.gone.add(meta.uid)

        return [answer for answer in await self._writes.each(delete, jobs) if answer is not None]

    async def serve(self, jobset: JobSet, service: Service) -> list[Refusal]:
        """Create the Service; one of that name that is there is used, of whatever origin."""
        return await self._make(jobset, SERVICE, [service], "HeadlessServiceCreationFailed")

    async def claim(self, jobset: JobSet, claims: Sequence[PersistentVolumeClaim]) -> list[Refusal]:
        """Create claims on storage; those that are there are used."""
        return await self._make(jobset, PERSISTENT_VOLUME_CLAIM, claims, "PVCCreationFailed")

    async def change(self, changes: Sequence[Change], expected: Expectations) -> list[Refusal]:
        """Patch Jobs, as they were looked at."""

        async def patch(change: Change) -> None:
            wanted = merge_patch(change.wanted, change.job)
            with ignoring("NotFound"):
                expected.wrote(await self._client.patch_object(JOB, change.job, wanted))

        return [answer for answer in await self._writes.each(patch, changes) if answer is not None]

    async def create(self, jobset: JobSet, jobs: Sequence[Job], expected: Expectations) -> list[Refusal]:
        """Create Jobs in batches that double in size: where all would be refused, few are tried.

        After a batch with an error the rest is left to the next decision. Of a Job that has the name already, the cache
        tells at the next look.
        """
        errors: list[Refusal] = []
        start, size = 0, FIRST_BATCH
        while start < len(jobs) and not errors:
            batch = jobs[start : start + size]
            for answer in await self._writes.each(self._create, batch):
                if isinstance(answer, Job):
                    expected.wrote(answer)
                else:
                    errors.append(answer)
            start, size = start + size, size * 2
        errors = [error for error in errors if not (isinstance(error, ApiError) and error.namespace_goes)]
        if told := [error for error in errors if not is_refusal(error, "AlreadyExists")]:
            self.tell(jobset, Note("Warning", "JobCreationFailed", str(told[0])))
        return errors

    async def store(self, jobset: JobSet, status: JobSetStatus, expected: Expectations) -> None:
        """Store what changed of the status. Raises `ApiError` (Conflict) if the JobSet is another by now."""
        patch = {"status": merge_patch(status, jobset.status)}
        expected.wrote_owner(await self._client.patch_object(JOB_SET, jobset, patch, subresource="status"))

    async def _make(self, jobset: JobSet, kind: Kind[T], things: Iterable[T], reason: str) -> list[Refusal]:
        """Create what is not there; what is there is used. Tells of a failure, for that reason."""

        async def create(thing: T) -> None:
            with ignoring("AlreadyExists"):
                await self._client.create(kind, thing)

        errors = [answer for answer in await self._writes.each(create, things) if answer is not None]
        if errors:
            self.tell(jobset, Note("Warning", reason, str(errors[0])))
        return errors

    async def _create(self, job: Job) -> Job:
        """The Job; one that is there already is the same if it is of the same JobSet."""
        try:
            return await self._client.create(JOB, job)
        except ApiError as error:
            if not is_refusal(error, "AlreadyExists"):
                raise
            found = await self._client.find(JOB, job.metadata.name, job.metadata.namespace)
            if found is None or jobset_reference(found) != jobset_reference(job):
                raise
            return found
