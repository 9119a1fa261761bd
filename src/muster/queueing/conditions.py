"""Read the conditions of a Workload, and change one without disturbing the others.

`lastTransitionTime` changes only when the status flips; time limits count from it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from muster.api.conditions import find, find_true
from muster.api.meta import Condition

# The limit of the API; longer messages are cut (upstream TruncateConditionMessage).
MAX_MESSAGE = 32768
_CUT = " ..."

Conditions = tuple[Condition, ...]


# The prefix with which a condition that was True quotes its old message.
PREVIOUSLY: Final = "Previously: "


def since(condition: Condition | None, default: datetime) -> datetime:
    """Return when the condition took its status; the default if that moment is not known."""
    return condition.last_transition_time or default if condition is not None else default


def put(conditions: Conditions, type: str, value: bool, reason: str, message: str, now: datetime) -> Conditions:
    """Return the conditions with one of them set; the same tuple if nothing changes."""
    status = "True" if value else "False"
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - len(_CUT)] + _CUT
    old = find(conditions, type)
    if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
        return conditions
    moment = now.replace(microsecond=0)
    if old is not None and old.status == status:
        moment = since(old, moment)
    new = Condition(type=type, status=status, reason=reason, message=message, last_transition_time=moment)
    if old is None:
        return (*conditions, new)
    return tuple(new if condition is old else condition for condition in conditions)


def reset(conditions: Conditions, type: str, reason: str, now: datetime) -> Conditions:
    """Turn a condition that is True to False with a message that quotes the old one.

    Leave any other condition alone.
    """
    old = find_true(conditions, type)
    return conditions if old is None else put(conditions, type, False, reason, PREVIOUSLY + old.message, now)


def drop(conditions: Conditions, type: str) -> Conditions:
    """Return the conditions without the one of this type."""
    return tuple(condition for condition in conditions if condition.type != type)


def stamped(before: Sequence[Condition], after: Conditions, generation: int) -> Conditions:
    """Return `after` with the object's generation on every condition that is not in `before`."""
    return tuple(
        condition if condition in before else msgspec.structs.replace(condition, observed_generation=generation)
        for condition in after
    )
