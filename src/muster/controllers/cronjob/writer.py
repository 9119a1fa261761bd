"""Write the plan for a CronJob: delete and create Jobs, store the status, and record events. Decides nothing."""

from muster.api.batch import CRON_JOB, JOB, CronJob, CronJobStatus, Job
from muster.api.meta import controller_of
from muster.api.notes import Note
from muster.api.status import ApiError
from muster.controllers.cronjob.metrics import CronJobMetrics
from muster.jobs.cronjob.plan import Start
from muster.runtime.client import Client
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import make_reference, merge_patch
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import TransportError
from muster.runtime.writes import Refusal


class Writer:
    """The writer of CronJobs' plans to the server."""

    def __init__(self, client: Client, recorder: Recorder, metrics: CronJobMetrics) -> None:
        self._client = client
        self._recorder = recorder
        self._metrics = metrics

    def record_event(self, cron_job: CronJob, note: Note) -> None:
        """Record an event about the CronJob."""
        self._recorder.event(make_reference(CRON_JOB, cron_job), note.type, note.reason, note.message)

    async def remove(self, cron_job: CronJob, job: Job) -> Refusal | None:
        """Delete exactly this Job (by UID) and record an event; return the refusal, or None if the Job is gone."""
        try:
            await self._client.delete_object(JOB, job)
        except (ApiError, TransportError) as error:
            if is_refusal(error, "NotFound", "Conflict"):  # the Job is gone
                return None
            self.record_event(cron_job, Note("Warning", "FailedDelete", f"Deleted job: {error}"))
            return error
        self.record_event(cron_job, Note("Normal", "SuccessfulDelete", f"Deleted job {job.metadata.name}"))
        return None

    async def create(self, cron_job: CronJob, start: Start) -> Job | None:
        """Create the Job of a start and record an event; return the Job.

        If an earlier attempt created the Job, return that Job. If another object has the Job's name, return None: as in
        upstream, the start is skipped. Raises `ApiError`, `TransportError`.
        """
        try:
            job = await self._client.create(JOB, start.job)
        except (ApiError, TransportError) as error:
            meta = start.job.metadata
            existing: Job | None = None
            if is_refusal(error, "AlreadyExists"):
                existing = await self._client.find(JOB, meta.name, meta.namespace)
            if existing is not None and _is_own(cron_job, existing):
                return existing
            if not (isinstance(error, ApiError) and error.is_namespace_terminating):
                self.record_event(cron_job, Note("Warning", "FailedCreate", f"Error creating job: {error}"))
            if existing is not None:
                return None
            raise
        self._metrics.job_created(job, start.at)
        self.record_event(cron_job, Note("Normal", "SuccessfulCreate", f"Created job {job.metadata.name}"))
        return job

    async def store(self, cron_job: CronJob, status: CronJobStatus) -> CronJob:
        """Store the changed fields of the status; return the CronJob as the server has stored it.

        Raises `ApiError` (Conflict) if the CronJob has changed since it was read.
        """
        patch = {"status": merge_patch(status, cron_job.status)}
        return await self._client.patch_object(CRON_JOB, cron_job, patch, subresource="status")


def _is_own(cron_job: CronJob, job: Job) -> bool:
    """Return whether the CronJob controls a Job."""
    owner = controller_of(job.metadata)
    return owner is not None and owner.uid == cron_job.metadata.uid
