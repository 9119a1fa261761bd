"""Describes what is particular to a kind of another project, as data."""

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

    suspend: the field that suspends a job. managed_by: the field that names the controller of a job; controller: the
    kind's own. places: the podsets. end, is_active, is_ready: as `Integration` has them. started_at: when it started.
    priority_class: the field that names the PriorityClass, if it is not that of the pods. rules: returns what is wrong
    with a job that queues. runs_by_itself: whether there is anything to start; a RayJob on an existing cluster only
    talks to it.
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
