"""Describe the particulars of a kind of another project, as data."""

from collections.abc import Callable

from msgspec import Struct

from muster.api.kinds import Kind
from muster.api.validation.fields import Errors
from muster.controllers.integrations.external import rules
from muster.controllers.integrations.external.documents import ExternalJob, Path
from muster.controllers.integrations.external.podsets import PlacesOf
from muster.controllers.integrations.external.standing import EndOf, IsSo


class Shape(Struct, frozen=True):
    """One kind.

    suspend: the path of the field that suspends a job.
    managed_by: the path of the field that names a job's controller.
    controller: the name of the kind's own controller.
    places: returns the podsets.
    end, is_active, is_ready: as in `Integration`.
    started_at: the path of its start time.
    priority_class: the path of the field with the PriorityClass, if it is not that of the pods.
    rules: returns the errors in a job that queues.
    runs_by_itself: whether the job has pods of its own; a RayJob on an existing cluster does not.
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
    rules: Callable[[ExternalJob], Errors] = rules.none
    runs_by_itself: IsSo = lambda job: True  # noqa: ARG005  (a reader like others)
