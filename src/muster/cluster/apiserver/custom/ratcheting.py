"""Ratcheting: an update is not refused for errors that the stored object already has (kubernetes KEP-4008).

An error is old if the value at its path is unchanged. For a missing value, the object that should contain it must be
unchanged. An item of a list is unchanged if the old list has an equal item at any index.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from muster.api.status import FieldError

_ABSENT = object()
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def remove_old_errors(errors: Sequence[FieldError], new: Any, old: Any) -> list[FieldError]:
    """Return the errors of an update, except errors about values that it leaves unchanged."""
    return [error for error in errors if not _is_unchanged(error.place or error.path, new, old)]


def _is_unchanged(path: str, new: Any, old: Any) -> bool:
    """Return whether the value at a path is unchanged. For a missing value, compare the object that should contain it.

    For an item of a list, compare it with all items of the old list.
    """
    value, before = new, old
    for step in _parse_steps(path):
        inner = _get_step(value, step)
        if inner is _ABSENT:
            break
        if isinstance(step, int):
            return isinstance(before, list) and any(_is_same(inner, item) for item in before)
        value, before = inner, _get_step(before, step)
    return before is not _ABSENT and _is_same(value, before)


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON, where `true` is not `1`."""
    return msgspec.json.encode(left, order="sorted") == msgspec.json.encode(right, order="sorted")


def _get_step(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and step < len(value) else _ABSENT
    return value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT


def _parse_steps(path: str) -> Iterator[str | int]:
    for match in _STEP.finditer(path):
        yield int(match[1]) if match[1] else match[2]
