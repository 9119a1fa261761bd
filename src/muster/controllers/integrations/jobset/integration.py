"""Queue a JobSet as one workload with a podset for each replicated job. All its pods start together or none."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from muster.api.batch import COMPLETION_INDEX
from muster.api.conditions import find
from muster.api.core import PodTemplateSpec
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob, names
from muster.api.kinds import Kind
from muster.api.kueue import PodSet, ReclaimablePod
from muster.api.kueue.names import ELASTIC_JOB, MULTI_KUEUE_CONTROLLER, POD_SET_LABEL
from muster.api.managed.topology import topology_request
from muster.api.validation.fields import Errors
from muster.controllers.integrations.framework import Integration, Step
from muster.controllers.integrations.job.integration import JobIntegration
from muster.controllers.integrations.jobset import admission, progress
from muster.controllers.integrations.jobset.gang import JobSetGangs
from muster.controllers.integrations.stopping import make_restart_operations, make_stop_patch
from muster.controllers.integrations.templates import (
    equals_where_injected,
    make_injecting_patch,
    make_operations,
    make_restoring_patch,
)
from muster.jobs.jobset.size import pods_of_role
from muster.jobs.jobset.status import says_it_runs
from muster.jobs.jobset.terms import finish, is_suspended, managed_by
from muster.queueing.jobframework.observedjob import End, PodSetInfo


class JobSetIntegration(Integration[JobSet]):
    """The integration of JobSets. The Jobs that a JobSet creates have no Workload of their own."""

    kind: Kind[JobSet] = JOB_SET
    name = "jobset.x-k8s.io/jobset"
    parts = (JobIntegration(),)
    gangs = JobSetGangs()

    def is_managed(self, job: JobSet) -> bool:
        """Return whether JobSet's own controller or MultiKueue runs the JobSet.

        Another controller may not be installed, and the JobSet would then hold quota forever.
        """
        return managed_by(job) in (names.CONTROLLER_NAME, MULTI_KUEUE_CONTROLLER)

    def podsets(self, job: JobSet) -> tuple[PodSet, ...]:
        """Return a podset for each replicated job of the JobSet, in order and with its name."""
        return tuple(map(_make_podset, job.spec.replicated_jobs))

    def is_suspended(self, job: JobSet) -> bool:
        """Return whether `spec.suspend` of the JobSet is true."""
        return is_suspended(job)

    def lacks_injection(self, job: JobSet) -> bool:
        """Return whether the JobSet is not suspended and a pod template lacks the label that admission adds."""
        marked = (POD_SET_LABEL in template.metadata.labels for template in _list_templates(job))
        return not is_suspended(job) and not all(marked)

    def is_active(self, job: JobSet) -> bool:
        """Return whether the JobSet has or may be creating pods: true until its controller reports it as suspended."""
        running = any(record.active for record in job.status.replicated_jobs_status)
        return running or (is_suspended(job) and says_it_runs(job.status))

    def is_ready(self, job: JobSet) -> bool:
        """Return whether all Jobs that may run are ready or have succeeded."""
        return progress.is_ready(job)

    def end(self, job: JobSet) -> End | None:
        """Return how the JobSet ended, by its conditions Completed and Failed; None if it has not ended."""
        condition = finish(job)
        return None if condition is None else End(condition.type == names.COMPLETED, condition.message)

    def reclaimable(self, job: JobSet) -> tuple[ReclaimablePod, ...]:
        """Return the pods of Jobs that have succeeded and will not run again."""
        return progress.list_reclaimable(job)

    def started_at(self, job: JobSet) -> datetime | None:
        """Return when the JobSet was last resumed, or when it was created if its controller never saw it suspended.

        Return None if it is suspended now, or its controller has not reconciled it yet.
        """
        suspended = find(job.status.conditions, names.SUSPENDED)
        if suspended is not None:
            return suspended.last_transition_time if suspended.status == "False" else None
        return job.metadata.creation_timestamp if job.status.replicated_jobs_status else None

    def priority_class(self, job: JobSet) -> str:
        """Return the PriorityClass of the first role whose pods name one; "" if none does."""
        return next(filter(None, (template.spec.priority_class_name for template in _list_templates(job))), "")

    def start(self, job: JobSet, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Return the one write that injects the values of admission and resumes the JobSet."""
        pairs = zip(_list_templates(job), infos, strict=True)
        step = _make_step([make_injecting_patch(template, info) for template, info in pairs], job, suspend=False)
        return [Step(operations=(*step.operations, *make_restart_operations(job.metadata)))]

    def stop(self, job: JobSet, why: str = "") -> Sequence[Step]:  # noqa: ARG002  (all JobSets stop alike)
        """Return the write that suspends the JobSet. Its controller counts that as an interruption with this reason."""
        return [Step({"spec": {"suspend": True}} | make_stop_patch(why))]

    def restore(self, job: JobSet, original: Sequence[PodSet]) -> Sequence[Step]:
        """Return the write that restores the pod templates. JobSet's controller updates the Jobs at the next resume."""
        pairs = zip(_list_templates(job), original, strict=True)
        return [_make_step([make_restoring_patch(template, podset.template) for template, podset in pairs], job)]

    def defaults(self, job: JobSet) -> dict[str, Any]:
        """Return the patch that makes a queued JobSet resizable like a JobSet without a queue; {} if it may not be."""
        return {"metadata": {"annotations": {ELASTIC_JOB: "true"}}} if admission.counts_follow(job) else {}

    def hand_over(self, job: JobSet) -> dict[str, Any]:
        """Return the patch that names MultiKueue as the controller of the JobSet; {} if another controller runs it."""
        here = managed_by(job) == names.CONTROLLER_NAME
        return {"spec": {"managedBy": MULTI_KUEUE_CONTROLLER}} if here else {}

    def keeping(self, new: JobSet, old: JobSet, original: Sequence[PodSet]) -> Sequence[dict[str, Any]]:
        """Return the patch that keeps the injected values in each template that otherwise fits its Workload."""
        if not len(new.spec.replicated_jobs) == len(old.spec.replicated_jobs) == len(original):
            return ()
        edits: list[dict[str, Any]] = []
        for number, (now, before, podset) in enumerate(
            zip(_list_templates(new), _list_templates(old), original, strict=True)
        ):
            if equals_where_injected(now, podset.template):
                edits += make_operations(_make_path(number), now, make_restoring_patch(now, before))
        return edits

    def rules(self, job: JobSet, old: JobSet | None) -> Errors:
        """Return the errors in the podsets and in their topology requests."""
        return admission.validate_jobset(job, old, self.podsets(job))

    def changes(self, new: JobSet, old: JobSet) -> Errors:
        """Return the errors for forbidden changes of the JobSet's size."""
        return admission.validate_changes(new, old)


def _make_podset(role: ReplicatedJob) -> PodSet:
    template = role.template.spec.template
    request = topology_request(template.metadata.annotations, COMPLETION_INDEX, (names.JOB_INDEX, role.replicas))
    return PodSet(name=role.name, template=template, count=pods_of_role(role), topology_request=request)


def _list_templates(jobset: JobSet) -> Iterator[PodTemplateSpec]:
    return (role.template.spec.template for role in jobset.spec.replicated_jobs)


def _make_step(patches: Sequence[dict[str, Any]], jobset: JobSet, *, suspend: bool | None = None) -> Step:
    """Return the one write that patches the pod templates and, unless `suspend` is None, sets `spec.suspend`."""
    edits = [{"op": "add", "path": "/spec/suspend", "value": suspend}] if suspend is not None else []
    for number, (template, patch) in enumerate(zip(_list_templates(jobset), patches, strict=True)):
        edits += make_operations(_make_path(number), template, patch)
    return Step(operations=tuple(edits))


def _make_path(number: int) -> str:
    return f"/spec/replicatedJobs/{number}/template/spec/template"
