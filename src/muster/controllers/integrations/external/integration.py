"""Queue jobs of other projects' kinds. A `Shape` describes each kind; the kind's own controller runs the pods."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from muster.api.kinds import Kind
from muster.api.kueue import PodSet, ReclaimablePod
from muster.api.kueue.names import ELASTIC_JOB, MULTI_KUEUE_CONTROLLER, POD_SET_LABEL, QUEUE_NAME_LABEL
from muster.api.managed.topology import validate_grouping
from muster.api.members import value_at
from muster.api.ours.elastic import is_elastic
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.kueue.rules import annotation_path
from muster.controllers.integrations.external import rules
from muster.controllers.integrations.external.documents import (
    ExternalJob,
    make_pointer,
    moment_at,
    patch_at,
    text_at,
    text_of_path,
)
from muster.controllers.integrations.external.podsets import Place
from muster.controllers.integrations.external.shape import Shape
from muster.controllers.integrations.framework import Integration, Step, UnreadableJobError
from muster.controllers.integrations.templates import (
    equals_where_injected,
    make_injecting_patch,
    make_operations,
    make_restoring_patch,
)
from muster.queueing.jobframework.observedjob import End, PodSetInfo


class ExternalIntegration(Integration[ExternalJob]):
    """The integration of one kind of another project. A cluster need not serve the kind."""

    optional = True

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @property
    def kind(self) -> Kind[ExternalJob]:
        """The kind, as its CRD names it."""
        return self.shape.kind

    @property
    def name(self) -> str:
        """The kind's name in `integrations.frameworks` of the Configuration."""
        return self.shape.name

    def places(self, job: ExternalJob) -> tuple[Place, ...]:
        """Return each podset of the job with the path of its pod template. Raises `UnreadableJobError`."""
        return tuple(self.shape.places(job))

    def is_managed(self, job: ExternalJob) -> bool:
        """Return whether the engine queues the job.

        The kind's own controller or MultiKueue must run the job, and the job must have pods to start.
        """
        named = text_at({"spec": job.spec}, *self.shape.managed_by)
        return named in ("", self.shape.controller, MULTI_KUEUE_CONTROLLER) and self.shape.runs_by_itself(job)

    def podsets(self, job: ExternalJob) -> tuple[PodSet, ...]:
        """Return the podsets for the pod templates of the job, with Kueue's names. Raises `UnreadableJobError`."""
        return tuple(place.podset for place in self.places(job))

    def is_suspended(self, job: ExternalJob) -> bool:
        """Return whether the job's field for suspension is true."""
        return value_at({"spec": job.spec}, self.shape.suspend) is True

    def lacks_injection(self, job: ExternalJob) -> bool:
        """Return whether the job is not suspended and a pod template lacks the label that admission adds.

        Return False if the templates cannot be read.
        """
        with suppress(UnreadableJobError):
            marked = (POD_SET_LABEL in place.template.metadata.labels for place in self.places(job))
            return not self.is_suspended(job) and not all(marked)
        return False

    def is_active(self, job: ExternalJob) -> bool:
        """Return whether the status of the job says that it has pods."""
        return self.shape.is_active(job)

    def is_ready(self, job: ExternalJob) -> bool:
        """Return whether the job's status says that the job is ready, in the way of its kind."""
        return self.shape.is_ready(job)

    def end(self, job: ExternalJob) -> End | None:
        """Return how the job ended, by its status; None if it has not ended."""
        return self.shape.end(job)

    def reclaimable(self, job: ExternalJob) -> tuple[ReclaimablePod, ...]:  # noqa: ARG002  (most kinds replace pods)
        """Return no pods, because the kind's controller may restart pods that have ended."""
        return ()

    def started_at(self, job: ExternalJob) -> datetime | None:
        """Return the start time in the job's status."""
        return moment_at({"status": job.status}, *self.shape.started_at)

    def priority_class(self, job: ExternalJob) -> str:
        """Return the priority class in the job's scheduling policy, else the first priority class that its pods name.

        Return "" if there is none.
        """
        if self.shape.priority_class and (named := text_at({"spec": job.spec}, *self.shape.priority_class)):
            return named
        with suppress(UnreadableJobError):
            return next(filter(None, (place.template.spec.priority_class_name for place in self.places(job))), "")
        return ""

    def start(self, job: ExternalJob, infos: Sequence[PodSetInfo]) -> Sequence[Step]:
        """Return the one write that injects the values of admission into the job and resumes it."""
        pairs = zip(self.places(job), infos, strict=True)
        edits = [edit for place, info in pairs for edit in self._list_edits_to_inject(place, info)]
        return [Step(operations=(*edits, {"op": "add", "path": make_pointer(self.shape.suspend), "value": False}))]

    def stop(self, job: ExternalJob, why: str = "") -> Sequence[Step]:  # noqa: ARG002  (all jobs of a kind stop alike)
        """Return the write that suspends the job."""
        return [Step(patch_at(self.shape.suspend, True))]

    def restore(self, job: ExternalJob, original: Sequence[PodSet]) -> Sequence[Step]:
        """Return the write that removes the injected values from the job's templates; no write if there are none."""
        pairs = zip(self.places(job), original, strict=True)
        edits = [
            edit
            for place, podset in pairs
            for edit in _list_edits(place, make_restoring_patch(place.template, podset.template))
        ]
        return [Step(operations=tuple(edits))] if edits else []

    def keeping(self, new: ExternalJob, old: ExternalJob, original: Sequence[PodSet]) -> Sequence[dict[str, Any]]:
        """Return the patch that keeps the injected values in each template that otherwise fits its Workload."""
        with suppress(UnreadableJobError):
            now, before = self.places(new), self.places(old)
            if [place.path for place in now] == [place.path for place in before] and len(now) == len(original):
                return list(_list_edits_to_keep(now, before, original))
        return ()

    def rules(self, job: ExternalJob, old: ExternalJob | None) -> Errors:
        """Yield the errors in a new or changed job that names a queue.

        A job of an external kind cannot become elastic, and the engine must be able to read its pod templates.

        old: the job before the update; None for a new job.
        """
        if not job.metadata.labels.get(QUEUE_NAME_LABEL):
            return
        if is_elastic(job.metadata.annotations) and not (old is not None and is_elastic(old.metadata.annotations)):
            yield invalid(annotation_path(ELASTIC_JOB), "true", f"a {self.kind.kind} keeps its size while it runs")
        yield from self.shape.rules(job)
        if not self.shape.runs_by_itself(job):
            return
        try:
            places = self.places(job)
        except UnreadableJobError as error:
            yield invalid(error.path, None, error.why)
            return
        for place in places:
            yield from rules.of_place(place)
        yield from validate_grouping(
            [(f"{text_of_path(place.path)}.metadata.annotations", place.podset) for place in places]
        )

    def _list_edits_to_inject(self, place: Place, info: PodSetInfo) -> Iterator[dict[str, Any]]:
        if place.written:
            yield from _list_edits(place, make_injecting_patch(place.template, info))
            return
        template = msgspec.json.decode(msgspec.json.encode(place.template))
        yield {"op": "add", "path": make_pointer(place.path), "value": template}
        yield from _list_edits(place, make_injecting_patch(place.template, info))


def _list_edits(place: Place, patch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return make_operations(make_pointer(place.path), place.template, patch)


def _list_edits_to_keep(
    now: Sequence[Place], before: Sequence[Place], original: Sequence[PodSet]
) -> Iterator[dict[str, Any]]:
    for place, earlier, podset in zip(now, before, original, strict=True):
        if equals_where_injected(place.template, podset.template):
            yield from _list_edits(place, make_restoring_patch(place.template, earlier.template))
