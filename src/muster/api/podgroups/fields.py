"""The types of fields that several PodGroups share."""

from datetime import datetime
from typing import Annotated

from muster.api.markers import Int32, limits
from muster.api.meta import Struct

Count = Annotated[Int32, limits(minimum=0)]


class PodGroupCondition(Struct):
    """One observed aspect of a PodGroup, as kube-batch and Volcano store it.

    type: the type of the condition, such as Unschedulable.
    status: True, False or Unknown.
    transition_id: the identifier of the last change.
    last_transition_time: when the condition last changed.
    reason: one word for the last change, in CamelCase.
    message: a sentence for people.
    """

    type: str = ""
    status: str = ""
    transition_id: str = ""
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""
