"""Conditions of objects of any kind: finding one by its type, and whether it is True."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class ConditionLike(Protocol):
    """The fields that conditions of all kinds have."""

    @property
    def type(self) -> str:
        """The type of the condition, as its kind defines it."""
        ...

    @property
    def status(self) -> str:
        """The status: True, False or Unknown."""
        ...


C = TypeVar("C", bound=ConditionLike)


def find(conditions: Sequence[C], type: str) -> C | None:
    """Return the condition of this type; None if there is none."""
    for condition in conditions:  # a generator would take twice as long in this hot function
        if condition.type == type:
            return condition
    return None


def find_true(conditions: Sequence[C], type: str) -> C | None:
    """Return the condition of this type if its status is True; else None."""
    condition = find(conditions, type)
    return condition if condition is not None and condition.status == "True" else None


def is_true(conditions: Sequence[ConditionLike], type: str) -> bool:
    """Return whether the condition of a type is True."""
    return find_true(conditions, type) is not None
