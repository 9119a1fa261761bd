"""Make the conditions of a pod's status, for process nodes and simulated nodes. Pure."""

from datetime import datetime

from muster.api.core import Pod, PodCondition
from muster.api.pods import find_condition


def make_condition(
    pod: Pod, moment: datetime, type: str, holds: bool, reason: str = "", message: str = ""
) -> PodCondition:
    """Return a condition for the pod's next status, with the time of its last change.

    moment: the current time, which is the time of the change if the condition's status changes.
    holds: whether the new status is True.
    """
    status = "True" if holds else "False"
    before = find_condition(pod, type)
    since = before.last_transition_time if before and before.status == status else None
    return PodCondition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since or whole_seconds(moment),
        observed_generation=pod.metadata.generation,
    )


def whole_seconds(time: datetime | None) -> datetime | None:
    """Return a time without fractions of a second, the precision of the API; None for None."""
    return time.replace(microsecond=0) if time else None
