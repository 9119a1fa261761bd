"""Queue a batch/v1 Job with the pods that it runs at once; with partial admission, it may start with fewer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from muster.api.batch import (
    COMPLETION_INDEX,
    CONTROLLER_UID_LABEL,
    JOB,
    JOB_CONTROLLER_NAME,
    JOB_NAME_LABEL,
    LEGACY_CONTROLLER_UID_LABEL,
    LEGACY_JOB_NAME_LABEL,
    Job,
    pods_at_once,
)
from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.kueue import MAIN_POD_SET, PodSet, ReclaimablePod
from muster.api.kueue.names import ELASTIC_JOB, JOB_MIN_PARALLELISM, MULTI_KUEUE_CONTROLLER, POD_SET_LABEL
from muster.api.managed.jobs import ties_completions
from muster.api.managed.topology import topology_request
from muster.api.ours.elastic import is_elastic
from muster.api.validation.fields import Errors
from muster.controllers.gangs import starts_together
from muster.controllers.integrations.framework import Integration, Step
from muster.controllers.integrations.job import admission
from muster.controllers.integrations.job.gang import JobGangs
from muster.controllers.integrations.stopping import make_restart_patch, make_stop_patch
from muster.controllers.integrations.templates import make_injecting_patch, make_restoring_patch
from muster.jobs.job.conditions import SUCCESS_CRITERIA_MET, SUSPENDED, finish
from muster.jobs.job.terms import managed_by
from muster.queueing.jobframework.observedjob import End, PodSetInfo
from muster.queueing.jobframework.reclaimable import reclaimable_pods

# Labels that the API server sets on a Job's pods and that cannot be removed. A Workload has only the job name.
_OWN_LABELS = (LEGACY_JOB_NAME_LABEL, LEGACY_CONTROLLER_UID_LABEL, CONTROLLER_UID_LABEL)


class JobIntegration(Integration[Job]):
    """The integration of Jobs. A Job has one podset, `main`."""

    kind: Kind[Job] = JOB
    name = "batch/job"
    gangs = JobGangs()

    def is_managed(self, job: Job) -> bool:
        """Return whether the built-in controller or MultiKueue runs the Job.

        Another controller may not be installed, and the Job would then hold quota forever.
        """
        return managed_by(job) in (JOB_CONTROLLER_NAME, MULTI_KUEUE_CONTROLLER)

    def podsets(self, job: Job) -> tuple[PodSet, ...]:
        """Return one podset of as many pods as run at the same time."""
        template = job.spec.template
        labels = {key: value for key, value in template.metadata.labels.items() if key not in _OWN_LABELS}
        template = msgspec.structs.replace(template, metadata=msgspec.structs.replace(template.metadata, labels=labels))
        request = topology_request(template.metadata.annotations, COMPLETION_INDEX)
        return (
            PodSet(
                name=MAIN_POD_SET,
                template=template,
                count=pods_at_once(job.spec),
                min_count=_find_minimum(job),
                topology_request=request,
            ),
        )

    def is_suspended(self, job: Job) -> bool:
        """Return whether `spec.suspend` of the Job is true."""
        return bool(job.spec.suspend)

    def lacks_injection(self, job: Job) -> bool:
        """Return whether the Job is not suspended and its pod template lacks the label that admission adds."""
        return not job.spec.suspend and POD_SET_LABEL not in job.spec.template.metadata.labels

    def is_active(self, job: Job) -> bool:
        """Return whether the Job has or may be creating pods: true until its controller reports it as suspended."""
        status = job.status
        unsure = job.spec.suspend and not is_true(status.conditions, SUSPENDED) and _may_have_begun(job)
        return bool(status.active or status.terminating or unsure)

    def is_ready(self, job: Job) -> bool:
        """Return whether as many pods are ready or have succeeded as run at the same time (Kueue KEP-349).

        Successes that the status does not count yet are included.
        """
        status = job.status
        uncounted = len(status.uncounted_terminated_pods.succeeded) if status.uncounted_terminated_pods else 0
        return status.succeeded + (status.ready or 0) + uncounted >= pods_at_once(job.spec)

    def end(self, job: Job) -> End | None:
        """Return how the Job ended, by its conditions Complete and Failed; None if it has not ended."""
        condition = finish(job)
        return None if condition is None else End(condition.type == "Complete", condition.message)

    def reclaimable(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Return how many of the Job's parallel pods have no completions left to do; empty if all of them have some.

        Also return an empty tuple if the Job is about to succeed and has no pods left, because its Workload then
        finishes at once.
        """
        count = 0 if _has_only_to_finish(job) else reclaimable_pods(job)
        return (ReclaimablePod(name=MAIN_POD_SET, count=count),) if count else ()

    def started_at(self, job: Job) -> datetime | None:
        """Return the start time in the Job's status."""
        return job.status.start_time

    def priority_class(self, job: Job) -> str:
        """Return the PriorityClass in the pod template."""
        return job.spec.template.spec.priority_class_name

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Return the write that resumes the Job with the injected values, and with the admitted size."""
        (info,) = infos
        template = {"template": make_injecting_patch(job.spec.template, info)}
        spec = {"suspend": False} | template | _make_size_patch(job, info.count)
        return [Step({"spec": spec} | make_restart_patch(job.metadata))]

    def stop(self, job: Job, why: str = "") -> Sequence[Step]:  # noqa: ARG002  (all Jobs stop alike)
        """Return the write that suspends the Job; its controller counts that as an interruption, with this reason."""
        return [Step({"spec": {"suspend": True}} | make_stop_patch(why))]

    def restore(self, job: Job, original: Sequence[PodSet]) -> Sequence[Step]:
        """Return the writes that clear the Job's start time, and then restore its pod template and its size.

        Servers before 1.35 let the template change only if there is no start time.
        """
        (podset,) = original
        template = make_restoring_patch(job.spec.template, podset.template, keep=(*_OWN_LABELS, JOB_NAME_LABEL))
        reset = [Step({"status": {"startTime": None}}, "status")] if job.status.start_time is not None else []
        return [*reset, Step({"spec": {"template": template} | _make_size_patch(job, podset.count)})]

    def defaults(self, job: Job) -> dict[str, Any]:
        """Return the patch that makes a queued Job resizable like a Job without a queue; {} if it may not be."""
        return {"metadata": {"annotations": {ELASTIC_JOB: "true"}}} if admission.counts_follow(job) else {}

    def hand_over(self, job: Job) -> dict[str, Any]:
        """Return the patch that names MultiKueue as the Job's controller; {} if another controller runs the Job."""
        return {"spec": {"managedBy": MULTI_KUEUE_CONTROLLER}} if admission.is_run_here(job) else {}

    def rules(self, job: Job, old: Job | None) -> Errors:
        """Yield the errors in the Job's fields for partial admission, group start and topology."""
        return admission.validate_job(job, old)

    def changes(self, new: Job, old: Job) -> Errors:
        """Return the errors for changes that partial admission forbids while the Job runs."""
        return admission.validate_changes(new, old)


def _has_only_to_finish(job: Job) -> bool:
    """Return whether all pods of the Job have ended and its controller has announced its success."""
    status = job.status
    return is_true(status.conditions, SUCCESS_CRITERIA_MET) and not status.active and not status.terminating


def _may_have_begun(job: Job) -> bool:
    """Return whether the Job may ever have had pods.

    Its controller creates pods before it writes a start time. But a Job that was created suspended, and whose spec has
    not changed since, has no pods.
    """
    changed = job.metadata.generation > 1 and admission.is_run_here(job)
    return changed or job.status.start_time is not None


def _find_minimum(job: Job) -> int | None:
    """Return the minimum number of pods with which the Job starts (partial admission); None without a minimum.

    An elastic Job has no minimum, because it is resized in another way.
    """
    annotations = job.metadata.annotations
    if is_elastic(annotations):
        return None
    # Pods that need not run together may start one by one.
    text = annotations.get(JOB_MIN_PARALLELISM, "" if starts_together(job.metadata) else "1")
    return int(text) if text.isascii() and text.isdigit() else None


def _make_size_patch(job: Job, count: int) -> dict[str, Any]:
    """Return the patch that sets the size of a Job with partial admission; empty for other Jobs."""
    if _find_minimum(job) is None or count == pods_at_once(job.spec):
        return {}
    return {"parallelism": count} | ({"completions": count} if ties_completions(job.metadata.annotations) else {})
