"""What a decision wants to be said about an object: an Event, before it is one. Pure."""

from typing import Literal

from msgspec import Struct


class Note(Struct, frozen=True):
    """An event about the object that was decided on, for people; its words are the Event's."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
