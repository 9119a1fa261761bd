"""Types of fields that several PodGroups have."""

from datetime import datetime
from typing import Annotated

from muster.api.markers import Int32, limits
from muster.api.meta import Struct

Count = Annotated[Int32, limits(minimum=0)]


class PodGroupCondition(Struct):
    """One observed aspect of a PodGroup, as kube-batch and Volcano keep it.

    type: what it is about, such as Unschedulable.
    status: True, False or Unknown.
    transition_id: names this state of it; another one, another name.
    last_transition_time: when it last changed.
    reason: one word for the last change, in CamelCase.
    message: a sentence for people.
    """

    type: str = ""
    status: str = ""
    transition_id: str = ""
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""
