"""Send notices of the start and the end of jobs; `muster.jobs.notices` decides.

A notice is sent by a pod in the namespace of the job. Its name follows from the job and the event, so that a controller
that was killed between two writes sends no notice twice. After the pod has ended, the controller records the event in
an annotation of the job, and deletes the pod if the notice was delivered. A pod that the platform ended is created
again.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from muster.api.batch import JOB, Job
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL
from muster.api.ours.notify import (
    NOTICE_JOB_ANNOTATION,
    NOTICE_LABEL,
    NOTIFIED_ANNOTATION,
    NOTIFY_ANNOTATION,
    NOTIFY_FAILURE_ANNOTATION,
    Event,
    NotifyError,
    read_notice_settings,
    read_notified,
)
from muster.api.pods import is_deleting, is_finished
from muster.api.status import ApiError
from muster.jobs.interruption import is_interrupted
from muster.jobs.notices import FAILED, Notice, describe_failure, find_notices, make_notice_pod, name_notice
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.informer import Informer
from muster.runtime.objects import ignores_status, key_of, make_reference
from muster.runtime.refusals import ignoring, is_refusal

WORKERS = 4

_BY_JOB = "notice-job"


class NoticeController(Reconciler):
    """The reconciler that sends notices about jobs.

    A key `namespace/name` stands for the Job and the JobSet of that name.

    muster_command: the shell command with which a pod calls Muster.
    explain_failure: returns why a job failed, such as which worker ended with which exit code; "" if that is unknown.
    """

    name = "notice-controller"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        muster_command: str,
        explain_failure: Callable[[Job | JobSet], str],
    ) -> None:
        super().__init__(manager, workers=WORKERS)
        self._recorder = recorder
        self._muster_command = muster_command
        self._explain_failure = explain_failure
        self._recorded: dict[
            str, set[tuple[str, str]]
        ] = {}  # by key: (UID, event) that this controller recorded, which the cached job may lack
        self._informers: dict[Kind[Any], Informer[Any]] = {
            JOB: manager.informer(JOB),
            JOB_SET: manager.informer(JOB_SET, optional=True),
        }
        self._pods = manager.informer(POD, labels=NOTICE_LABEL, indexes={_BY_JOB: _list_jobs})
        for informer in self._informers.values():
            self._controller.watch(informer, when=_may_tell)
        self._controller.watch(self._pods, _list_jobs)

    async def _reconcile(self, key: str) -> Result:
        jobs = [(kind, job) for kind, informer in self._informers.items() if (job := informer.get(key)) is not None]
        uids = {job.metadata.uid for _, job in jobs}
        for kind, job in jobs:
            await self._attend(kind, job)
        for pod in self._pods.by(_BY_JOB, key):
            if pod.metadata.labels.get(NOTICE_LABEL) not in uids and is_finished(pod):
                await self._delete(pod)
        if not jobs:
            self._recorded.pop(key, None)
        return None

    async def _attend(self, kind: Kind[Any], job: Job | JobSet) -> None:
        """Send the notices of a job that are due, and record the notices that have been sent."""
        meta = job.metadata
        if NOTIFY_ANNOTATION not in meta.annotations or MULTI_KUEUE_ORIGIN_LABEL in meta.labels:
            return  # for a job from MultiKueue, the manager's cluster sends notices
        try:
            settings = read_notice_settings(meta.annotations)
        except NotifyError as error:
            self._recorder.event(make_reference(kind, job), "Warning", "InvalidNotify", str(error), series=True)
            return
        if not settings:
            return
        recorded = self._read_recorded(job)
        for notice in find_notices(job, settings.events):
            pod = self._pods.get(f"{meta.namespace}/{name_notice(job, notice.event)}")
            if notice.event in recorded:
                if pod is not None and pod.status.phase == "Succeeded":
                    await self._delete(pod)
            elif pod is None:
                await self._send(kind, job, notice, settings.targets)
            elif is_finished(pod) and not is_deleting(pod):
                await self._conclude(kind, job, notice.event, pod)

    async def _send(self, kind: Kind[Any], job: Job | JobSet, notice: Notice, targets: tuple[str, ...]) -> None:
        if notice.state == FAILED and (cause := self._explain_failure(job)):
            notice = replace(notice, reason=cause)
        pod = make_notice_pod(job, notice, targets, self._muster_command)
        try:
            with ignoring("AlreadyExists"):
                await self._client.create(POD.seen_as(dict), pod, job.metadata.namespace)
        except ApiError as error:
            if not is_refusal(error, "Forbidden", "Invalid"):
                raise
            await self._record(kind, job, notice.event, f"The notice of {notice.event} was refused: {error}")

    async def _conclude(self, kind: Kind[Any], job: Job | JobSet, event: Event, pod: Pod) -> None:
        """Record that a notice was sent.

        If the platform ended the notice's pod, delete the pod to send the notice again.
        """
        if is_interrupted(pod):
            await self._delete(pod)
            return
        failure = describe_failure(pod)
        await self._record(kind, job, event, f"The notice of {event} failed: {failure}" if failure else "")
        if not failure:
            await self._delete(pod)

    async def _record(self, kind: Kind[Any], job: Job | JobSet, event: Event, failure: str) -> None:
        """Record in the job that a notice was sent.

        failure: why it was not delivered, which is also recorded as an event; "" if it was delivered.
        """
        annotations = {NOTIFIED_ANNOTATION: ",".join(sorted(self._read_recorded(job) | {event}))}
        if failure:
            annotations[NOTIFY_FAILURE_ANNOTATION] = failure
        await self._client.patch_object(kind, job, {"metadata": {"annotations": annotations}})
        self._recorded.setdefault(key_of(job), set()).add((job.metadata.uid, event))
        if failure:
            self._recorder.event(make_reference(kind, job), "Warning", "NoticeFailed", failure)

    def _read_recorded(self, job: Job | JobSet) -> frozenset[str]:
        """Return the events about which a notice was sent.

        The job's annotation lists them, but the cached job may lack events that this controller has just recorded.
        """
        ours = self._recorded.get(key_of(job), ())
        return read_notified(job.metadata.annotations) | {event for uid, event in ours if uid == job.metadata.uid}

    async def _delete(self, pod: Pod) -> None:
        with ignoring("NotFound", "Conflict"):
            await self._client.delete_object(POD, pod, grace_period_seconds=0)


@ignores_status
def _list_jobs(pod: Pod) -> tuple[str, ...]:
    """Return the key of the job about which the pod sends a notice; empty for any other pod."""
    name = pod.metadata.annotations.get(NOTICE_JOB_ANNOTATION, "")
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _may_tell(old: Job | JobSet | None, new: Job | JobSet | None) -> bool:
    job = new if new is not None else old
    return job is not None and NOTIFY_ANNOTATION in job.metadata.annotations
