"""How a batch/v1 Job queues. Its size is its parallelism; where it may, it starts with less (partial admission)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.api.batch import JOB, Job
from muster.api.elastic import ELASTIC_ANNOTATION
from muster.api.kinds import Kind
from muster.api.kueue import MAIN_POD_SET, PodSet, ReclaimablePod
from muster.api.kueue.names import ELASTIC_JOB, JOB_COMPLETIONS_EQUAL_PARALLELISM, JOB_MIN_PARALLELISM
from muster.controllers.integrations.framework import Step
from muster.jobs.conditions import SUSPENDED, finish, is_true
from muster.jobs.terms import Terms
from muster.queueing.pairing import End, PodSetInfo
from muster.queueing.reclaimable import reclaimable_pods


class JobIntegration:
    """Jobs with one podset, `main`."""

    kind: Kind[Job] = JOB
    name = "batch/job"

    def podsets(self, job: Job) -> tuple[PodSet, ...]:
        """As many pods as run side by side."""
        return (PodSet(name=MAIN_POD_SET, template=job.spec.template, count=_size(job), min_count=_least(job)),)

    def is_suspended(self, job: Job) -> bool:
        """By its own field."""
        return bool(job.spec.suspend)

    def is_active(self, job: Job) -> bool:
        """Until its controller says that a suspended Job has no pods any more, it may be making some."""
        status = job.status
        unsure = status.start_time is not None and not is_true(status.conditions, SUSPENDED)
        return bool(status.active or status.terminating or (job.spec.suspend and unsure))

    def is_ready(self, job: Job) -> bool:
        """KEP-349: ready + succeeded >= parallelism; successes count before they are booked."""
        status = job.status
        uncounted = len(status.uncounted_terminated_pods.succeeded) if status.uncounted_terminated_pods else 0
        return status.succeeded + (status.ready or 0) + uncounted >= _size(job)

    def end(self, job: Job) -> End | None:
        """Complete or Failed."""
        condition = finish(job)
        return None if condition is None else End(condition.type == "Complete", condition.message)

    def reclaimable(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Pods beyond those that are still to be done."""
        count = reclaimable_pods(job)
        return (ReclaimablePod(name=MAIN_POD_SET, count=count),) if count else ()

    def started_at(self, job: Job) -> datetime | None:
        """As its controller says."""
        return job.status.start_time

    def priority_class(self, job: Job) -> str:
        """That of its pods."""
        return job.spec.template.spec.priority_class_name

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Resume it with what was injected, in the size that was admitted."""
        (info,) = infos
        template = job.spec.template
        tolerations = (*template.spec.tolerations, *(t for t in info.tolerations if t not in template.spec.tolerations))
        spec: dict[str, Any] = {
            "suspend": False,
            "template": {
                "metadata": {"labels": dict(info.labels), "annotations": dict(info.annotations)},
                "spec": {"nodeSelector": dict(info.node_selector), "tolerations": list(tolerations)},
            },
        }
        return [Step({"spec": spec | _sized(job, info.count)})]

    def stop(self, job: Job) -> Sequence[Step]:  # noqa: ARG002  (all Jobs stop alike)
        """Suspend it."""
        return [Step({"spec": {"suspend": True}})]

    def restore(self, job: Job, original: Sequence[PodSet]) -> Sequence[Step]:
        """Its template may change once it counts as never started; so that is said first."""
        (podset,) = original
        now, before = job.spec.template, podset.template
        metadata = {
            "labels": _replaced(now.metadata.labels, before.metadata.labels),
            "annotations": _replaced(now.metadata.annotations, before.metadata.annotations),
        }
        spec: dict[str, Any] = {"nodeSelector": _replaced(now.spec.node_selector, before.spec.node_selector)}
        changes = {part: change for part, change in (metadata | spec).items() if change}
        template: dict[str, Any] = {"metadata": {k: v for k, v in metadata.items() if v}}
        template["spec"] = {k: v for k, v in spec.items() if v}
        if now.spec.tolerations != before.spec.tolerations:
            template["spec"]["tolerations"] = list(before.spec.tolerations)
        size = {} if _is_elastic(job) else _sized(job, podset.count)
        if not changes and "tolerations" not in template["spec"] and not size:
            return []
        reset = [Step({"status": {"startTime": None}}, "status")] if job.status.start_time is not None else []
        return [*reset, Step({"spec": {"template": template} | size})]


def _size(job: Job) -> int:
    terms = Terms.of(job)
    return terms.parallelism if terms.completions is None else min(terms.parallelism, terms.completions)


def _least(job: Job) -> int | None:
    text = job.metadata.annotations.get(JOB_MIN_PARALLELISM, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _is_elastic(job: Job) -> bool:
    annotations = job.metadata.annotations
    return ELASTIC_ANNOTATION in annotations or annotations.get(ELASTIC_JOB) == "true"


def _sized(job: Job, count: int) -> dict[str, Any]:
    """What makes the Job so large; nothing if it is."""
    if count == _size(job):
        return {}
    together = job.metadata.annotations.get(JOB_COMPLETIONS_EQUAL_PARALLELISM) == "true"
    return {"parallelism": count} | ({"completions": count} if together else {})


def _replaced(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch that makes one map the other."""
    gone: dict[str, str | None] = {key: None for key in now if key not in before}
    return gone | {key: value for key, value in before.items() if now.get(key) != value}
