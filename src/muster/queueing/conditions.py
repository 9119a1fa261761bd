"""The conditions of a Workload: reading them, and changing one without disturbing the others.

`lastTransitionTime` changes only when the status flips; time limits count from it.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from muster.api.conditions import find, find_true
from muster.api.meta import Condition

# What the API takes; longer messages are cut (upstream TruncateConditionMessage).
MAX_MESSAGE = 32768
_CUT = " ..."

Conditions = tuple[Condition, ...]


def since(condition: Condition | None, default: datetime) -> datetime:
    """When the condition took its status; the default where that is not known."""
    return condition.last_transition_time or default if condition is not None else default


def put(conditions: Conditions, type: str, value: bool, reason: str, message: str, now: datetime) -> Conditions:
    """The conditions with one of them as given; the same tuple if nothing changes."""
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
    """A condition that was True turns False and says what it was; one that was not stays as it is."""
    old = find_true(conditions, type)
    return conditions if old is None else put(conditions, type, False, reason, f"Previously: {old.message}", now)


def drop(conditions: Conditions, type: str) -> Conditions:
    """The conditions without one of them."""
    return tuple(condition for condition in conditions if condition.type != type)


def stamped(before: Sequence[Condition], after: Conditions, generation: int) -> Conditions:
    """What is new in `after` says for which generation of the object it was found."""
    return tuple(
        condition if condition in before else msgspec.structs.replace(condition, observed_generation=generation)
        for condition in after
    )
