"""Decide which events of a job to send notices about, and make the pods that send them. Pure.

The events follow from the status of the job alone. So no event is lost while the server does not run.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from muster.api.batch import Job
from muster.api.core import Container, Pod
from muster.api.jobset import JobSet
from muster.api.jobset import names as jobset_names
from muster.api.ours.notify import (
    NOTICE_EVENT_ANNOTATION,
    NOTICE_JOB_ANNOTATION,
    NOTICE_LABEL,
    NOTICE_TARGET_VARIABLE,
    Event,
    TargetKind,
    find_kind,
)
from muster.api.values.expansion import escape
from muster.jobs.interruption import count_interruptions, last_interruption
from muster.jobs.job.conditions import CANCELLED, COMPLETE
from muster.jobs.job.conditions import finish as job_finish
from muster.jobs.jobset import terms as jobset_terms

# The time limit of a notice's command, in seconds.
LONGEST_SECONDS: Final = 60
# The state of a failed job in a notice.
FAILED: Final = "Failed"
_GRACE_SECONDS = 2
_SHELL = "/bin/sh"


class Notice(Struct, frozen=True):
    """An event of a job about which a notification is sent.

    state: the job's state in a word.
    reason: the cluster's message about the state; "" for none.
    """

    event: Event
    state: str
    reason: str = ""


def find_notices(job: Job | JobSet, events: Collection[Event]) -> list[Notice]:
    """Return the notices for all events of the job so far, in order.

    events: the events that the user requested. A failure is also an end; in that case only one notice is sent.
    """
    notices = []
    if _has_started(job):
        notices.append(Notice(Event.START, "Running"))
    if _has_restarted(job):
        notices.append(Notice(Event.REQUEUE, "Requeued", last_interruption(job.status.conditions)))
    if (end := _find_end(job)) is not None:
        notices.append(end if end.event in events else Notice(Event.END, end.state, end.reason))
    return [notice for notice in notices if notice.event in events]


def _has_started(job: Job | JobSet) -> bool:
    """Return whether any pod of a Job, or any Job of a JobSet, is ready or has ended, or the JobSet has restarted."""
    if isinstance(job, JobSet):
        roles = job.status.replicated_jobs_status
        return bool(job.status.restarts) or any(role.ready or role.succeeded or role.failed for role in roles)
    status = job.status
    return bool(status.ready or status.succeeded or status.failed)


def _has_restarted(job: Job | JobSet) -> bool:
    is_restarted = isinstance(job, JobSet) and job.status.restarts > 0
    return is_restarted or count_interruptions(job.status.conditions) > 0


def _find_end(job: Job | JobSet) -> Notice | None:
    condition = jobset_terms.finish(job) if isinstance(job, JobSet) else job_finish(job)
    if condition is None:
        return None
    if condition.type in (COMPLETE, jobset_names.COMPLETED):
        return Notice(Event.END, "Completed")
    if condition.reason == CANCELLED:
        return Notice(Event.END, "Cancelled")
    return Notice(Event.FAIL, FAILED, ": ".join(filter(None, (condition.reason, condition.message))))


def name_notice(job: Job | JobSet, event: Event) -> str:
    """Return the name of the pod that sends a notice. The same event of the same job always has the same name."""
    return f"notice-{event}-{job.metadata.uid}"


def make_notice_pod(job: Job | JobSet, notice: Notice, targets: Sequence[str], muster: str) -> dict[str, Any]:
    """Return the pod that sends a notice, with a container for each target, so that no target waits for another.

    muster: the shell command with which a pod calls Muster.
    """
    meta, worker = job.metadata, _find_worker(job)
    variables = {
        "MUSTER_JOB": meta.name,
        "MUSTER_NAMESPACE": meta.namespace,
        "MUSTER_EVENT": str(notice.event),
        "MUSTER_JOB_STATE": notice.state,
        "MUSTER_JOB_REASON": notice.reason,
    }
    plain = {one.name: one.value for one in worker.env if one.value_from is None}
    environment = plain | {name: escape(value) for name, value in variables.items()}
    containers = [_make_container(at, target, worker, environment, muster) for at, target in enumerate(targets, 1)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_notice(job, notice.event),
            "namespace": meta.namespace,
            "labels": {NOTICE_LABEL: meta.uid},
            "annotations": {NOTICE_JOB_ANNOTATION: meta.name, NOTICE_EVENT_ANNOTATION: str(notice.event)},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": containers,
        },
    }


def describe_failure(pod: Pod) -> str:
    """Return which targets the pod of a notice did not reach, and why; "" if it reached all.

    Targets are named by position, because the text of a target may be a secret.
    """
    if pod.status.phase == "Succeeded":
        return ""
    if pod.status.reason == "DeadlineExceeded":
        return f"it took longer than {LONGEST_SECONDS} s"
    ends = [(one.name, one.state.terminated) for one in pod.status.container_statuses]
    failures = [
        f"{target} ended with exit code {end.exit_code}" + (f": {last_line}" if last_line else "")
        for target, end in ends
        if end is not None and end.exit_code
        for last_line in [end.message.strip().rpartition("\n")[2]]
    ]
    return "; ".join(failures) or pod.status.message or pod.status.reason or "its pod failed, and nothing says why"


def _find_worker(job: Job | JobSet) -> Container:
    """Return the first container of the job, whose environment and directory the notice pods use."""
    if isinstance(job, JobSet):
        templates = [role.template.spec.template for role in job.spec.replicated_jobs]
    else:
        templates = [job.spec.template]
    return next((container for template in templates for container in template.spec.containers), Container())


def _make_container(
    at: int, target: str, worker: Container, environment: Mapping[str, str], muster: str
) -> dict[str, Any]:
    """Return the container that sends a notice to a target.

    A URL is passed in an environment variable, because all users of a machine can read command lines.
    """
    if find_kind(target) is TargetKind.COMMAND:
        line = target
    else:
        line, environment = f"exec {muster} notify", {**environment, NOTICE_TARGET_VARIABLE: escape(target)}
    return {
        "name": f"target-{at}",
        "image": worker.image or "none",
        "command": [_SHELL, "-c", escape(line)],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    } | ({"workingDir": worker.working_dir} if worker.working_dir else {})
