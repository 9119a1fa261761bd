"""An event that a decision requests as a value, so that the decision itself does no I/O."""

from typing import Literal

from msgspec import Struct


class Note(Struct, frozen=True):
    """An event to record about the object of a decision. Its fields become the Event's fields."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
