"""Observe a job of any kind, as input for the decision that pairs it with its Workload."""

from typing import Generic, TypeVar

from muster.api.config import Configuration
from muster.api.kueue import PodSet
from muster.api.kueue.names import (
    ADMISSION_GATED_BY,
    ELASTIC_JOB,
    MAX_EXEC_TIME_SECONDS_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.kueue.readiness import JOB_START_ANNOTATION, READY_ANNOTATION
from muster.api.managed.jobs import prebuilt_name
from muster.api.ours.elastic import ELASTIC_ANNOTATION, is_elastic
from muster.controllers.integrations.framework import Observable
from muster.controllers.integrations.priorities import Priorities
from muster.queueing.jobframework.equivalence import remove_repeated_variables
from muster.queueing.jobframework.observedjob import ObservedJob
from muster.runtime.objects import meta_of

T = TypeVar("T")

# Annotations of a job that are copied to its Workload.
_COPIED = (ADMISSION_GATED_BY, READY_ANNOTATION, ELASTIC_ANNOTATION, ELASTIC_JOB)


class Observer(Generic[T]):
    """The reader of the state of jobs of one kind."""

    def __init__(self, integration: Observable[T], priorities: Priorities, configuration: Configuration) -> None:
        waiting = configuration.wait_for_pods_ready
        self._integration = integration
        self._priorities = priorities
        self._copied = (*_COPIED, *configuration.annotations_to_copy)
        self._notes_start = waiting is not None and waiting.clock == "JobStart"

    def facts(self, job: T, podsets: tuple[PodSet, ...] | None = None) -> ObservedJob:
        """Return the observed state of a job. Raises `UnreadableJobError`.

        podsets: the podsets to use if the job's own cannot be read; None to read the job's own.
        """
        meta, kind = meta_of(job), self._integration
        ref, priority = self._priorities.find(meta.labels.get(PRIORITY_CLASS_LABEL, ""), kind.priority_class(job))
        longest = meta.labels.get(MAX_EXEC_TIME_SECONDS_LABEL, "")
        return ObservedJob(
            suspended=kind.is_suspended(job),
            active=kind.is_active(job),
            ready=kind.is_ready(job),
            podsets=tuple(map(remove_repeated_variables, kind.podsets(job))) if podsets is None else podsets,
            end=kind.end(job),
            reclaimable=kind.reclaimable(job) if podsets is None else (),
            queue=meta.labels.get(QUEUE_NAME_LABEL, ""),
            priority_class=ref,
            priority=priority,
            maximum_execution_time_seconds=int(longest) if longest.isascii() and longest.isdigit() else None,
            lacks_injection=kind.lacks_injection(job),
            elastic=is_elastic(meta.annotations),
            prebuilt=bool(prebuilt_name(meta)),
            annotations={key: meta.annotations[key] for key in self._copied if key in meta.annotations}
            | self._start(job),
        )

    def _start(self, job: T) -> dict[str, str]:
        """Return an annotation for the Workload with the start time of the job.

        The result is empty unless the job runs and the readiness timeout (Kueue KEP-349) counts from its start.
        """
        started = self._integration.started_at(job)
        if not self._notes_start or started is None or self._integration.is_suspended(job):
            return {}
        return {JOB_START_ANNOTATION: started.isoformat().replace("+00:00", "Z")}
