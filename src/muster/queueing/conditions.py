"""Read the conditions of a Workload, and change one without affecting the others.

`lastTransitionTime` changes only when the status changes; time limits are measured from it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from muster.api.conditions import find, find_true
from muster.api.meta import Condition

# The API's limit on the length; longer messages are cut (upstream TruncateConditionMessage).
MAX_MESSAGE = 32768
_CUT = " ..."

Conditions = tuple[Condition, ...]


# The message of a condition that turns False is this prefix and the old message.
PREVIOUSLY: Final = "Previously: "


def describe_gates(names: str) -> str:
    """Return the message of a Workload that these admission gates keep out of its queue (Kueue KEP-6915)."""
    return f"Admission is gated by: {names}"


def find_last_change(condition: Condition | None, default: datetime) -> datetime:
    """Return when the status of the condition last changed; `default` if the condition or its time is missing."""
    return condition.last_transition_time or default if condition is not None else default


def put(conditions: Conditions, type: str, value: bool, reason: str, message: str, now: datetime) -> Conditions:
    """Return the conditions with the condition of this type set to `value`.

    The same tuple is returned if nothing changes.
    """
    status = "True" if value else "False"
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - len(_CUT)] + _CUT
    old = find(conditions, type)
    if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
        return conditions
    moment = now.replace(microsecond=0)
    if old is not None and old.status == status:
        moment = find_last_change(old, moment)
    new = Condition(type=type, status=status, reason=reason, message=message, last_transition_time=moment)
    if old is None:
        return (*conditions, new)
    return tuple(new if condition is old else condition for condition in conditions)


def reset(conditions: Conditions, type: str, reason: str, now: datetime) -> Conditions:
    """Return the conditions with the condition of this type set from True to False.

    The new message quotes the old one. A condition that is missing or already False stays unchanged.
    """
    old = find_true(conditions, type)
    return conditions if old is None else put(conditions, type, False, reason, PREVIOUSLY + old.message, now)


def drop(conditions: Conditions, type: str) -> Conditions:
    """Return the conditions without the condition of this type."""
    return tuple(condition for condition in conditions if condition.type != type)


def stamp_generation(before: Sequence[Condition], after: Conditions, generation: int) -> Conditions:
    """Return the conditions in `after` that differ from `before` with `observedGeneration` set to this generation.

    Conditions that are equal in both stay unchanged.
    """
    return tuple(
        condition if condition in before else msgspec.structs.replace(condition, observed_generation=generation)
        for condition in after
    )
