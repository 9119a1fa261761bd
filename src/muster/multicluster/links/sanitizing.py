"""Make texts of worker clusters safe to store, because a worker may send anything. Pure."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from muster.api.kueue.names import UNKNOWN
from muster.api.meta import Condition
from muster.api.status import ApiError
from muster.api.validation import names
from muster.queueing.conditions import MAX_MESSAGE

T = TypeVar("T")

# The maximum number of characters of a worker's message.
MOST_SAID = 500

# The values that may be a time, or contain one.
_HOLDERS = (datetime, tuple, Struct)

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")


def one_line(text: str, most: int = MOST_SAID) -> str:
    """Return a worker's text on one line of limited length, for logs and statuses."""
    return "".join(c if c.isprintable() else " " for c in text[:most])


def in_one_line(error: Exception) -> Exception:
    """Return an error of the same kind whose text is safe to store and to log."""
    if isinstance(error, ApiError):
        return ApiError(replace(error.status, message=one_line(error.status.message)))
    return type(error)(one_line(str(error)))


def sanitize_reason(text: str) -> str:
    """Return a worker's reason of a condition; `UNKNOWN` if the API would not accept it."""
    return text if _REASON.fullmatch(text) else UNKNOWN


def add_time_zone(obj: T) -> T:
    """Return an object of a worker with its naive status times set to UTC; the same object if it has none."""
    before = getattr(obj, "status", None)
    status = _add_zones(before)
    return obj if status is before else replace(obj, status=status)  # type: ignore[type-var]


def _add_zones(value: Any) -> Any:
    """Return a value whose naive times, also nested ones, are set to UTC; the value itself if it has none."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, tuple):
        converted = tuple(map(_add_zones, value))
        return value if all(new is old for new, old in zip(converted, value, strict=True)) else converted
    if not isinstance(value, Struct):
        return value
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        if old and isinstance(old, _HOLDERS) and (new := _add_zones(old)) is not old:  # most fields are empty or texts
            changed[name] = new
    return replace(value, **changed) if changed else value


def sanitize_conditions(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the valid conditions, the first of each type, with texts that the manager's API accepts."""
    condition_by_type = {one.type: one for one in reversed(tuple(conditions)) if _is_valid(one)}
    return tuple(
        replace(
            one,
            observed_generation=max(0, one.observed_generation),
            reason=sanitize_reason(one.reason),
            message=one_line(one.message, MAX_MESSAGE),
        )
        for one in reversed(condition_by_type.values())
    )


def _is_valid(condition: Condition) -> bool:
    is_named = len(condition.type) <= 316 and not names.label_key(condition.type)
    is_known = condition.status in ("True", "False", "Unknown")
    return is_named and is_known and condition.last_transition_time is not None
