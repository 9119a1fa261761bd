"""Describe the properties of an external kind as data."""

from collections.abc import Callable

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.validation.fields import Errors
from muster.controllers.integrations.external import rules
from muster.controllers.integrations.external.documents import ExternalJob, Path
from muster.controllers.integrations.external.podsets import PlacesOf
from muster.controllers.integrations.external.statusreaders import EndOf, IsSo


class Shape(Struct, frozen=True):
    """The description of one kind of another project, for `ExternalIntegration`.

    suspend: the path of the field that suspends a job.
    managed_by: the path of the field that names a job's controller.
    controller: the name of the kind's own controller.
    places: returns the podsets of a job.
    end, is_active, is_ready: the functions behind the methods of `Integration` with these names.
    started_at: the path of the job's start time.
    priority_class: the path of the field with the PriorityClass, if it is not in the pod templates.
    rules: returns the errors in a job that queues.
    runs_by_itself: returns whether the job has pods of its own; a RayJob on an existing cluster has none.
    """

    kind: Kind[ExternalJob]
    name: str
    controller: str
    places: PlacesOf
    end: EndOf
    is_active: IsSo
    is_ready: IsSo
    suspend: Path = ("spec", "suspend")
    managed_by: Path = ("spec", "managedBy")
    started_at: Path = ("status", "startTime")
    priority_class: Path = ()
    rules: Callable[[ExternalJob], Errors] = rules.find_no_errors
    runs_by_itself: IsSo = lambda job: True  # noqa: ARG005  (a reader like others)
