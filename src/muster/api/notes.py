"""Describes an event that a decision wants recorded about an object. Pure."""

from typing import Literal

from msgspec import Struct


class Note(Struct, frozen=True):
    """An event about the object that was decided on, for people; its words are the Event's."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
