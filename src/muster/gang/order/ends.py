"""Estimate when running pods end, from an enforced limit or from the user's expectation."""

from math import inf

from msgspec import Struct

from muster.api.core import Pod
from muster.api.kueue.names import MAX_EXEC_TIME_SECONDS_LABEL
from muster.api.meta import ObjectMeta, controller_of
from muster.api.values import durations

# On a pod, a Job or a group: the expected run time, counted from the start, as a duration (`1h30m`).
EXPECTED_DURATION_ANNOTATION = "muster.dev/expected-duration"

# The kinds of controllers whose pods run until they are deleted.
_SERVICES = frozenset({"DaemonSet", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"})

_LONGEST_NUMBER = 10

# A duration above this number of seconds means no limit, and is ignored.
CENTURY = 100 * 365 * 24 * 3600.0


class EndTime(Struct, frozen=True, cache_hash=True):
    """The end time of a pod or a gang.

    at: the time in seconds, on the clock that measured the start; infinity if it does not end on its own.
    is_enforced: whether an enforced limit ends it at that time at the latest.
    """

    at: float
    is_enforced: bool = False


NEVER = EndTime(inf, is_enforced=True)


def expected_end(pod: Pod, started: float, carried: EndTime | None = None) -> EndTime | None:
    """Return when a pod that started at `started` ends; None if that is unknown.

    carried: the end time that the pod's Job or group defines; None if it defines none.
    """
    own = end_of(pod.metadata, pod.spec.active_deadline_seconds, started)
    end = own if carried is None else carried if own is None else min(own, carried, key=lambda one: one.at)
    if end is None and (owner := controller_of(pod.metadata)) is not None and owner.kind in _SERVICES:
        return NEVER
    return end


def end_of(meta: ObjectMeta, deadline: int | None, started: float) -> EndTime | None:
    """Return when an object that started at `started` ends; None if it has neither a limit nor an expectation.

    deadline: the `activeDeadlineSeconds` of the object; None for no deadline.

    The user's expectation is used if it is sooner than the enforced limits. An invalid or absurdly long expectation is
    ignored.
    """
    limits = [limit for limit in (deadline, _read_time_limit(meta)) if limit is not None and limit < CENTURY]
    expected = _read_expected_duration(meta)
    if limits and (expected is None or min(limits) <= expected):
        return EndTime(started + min(limits), is_enforced=True)
    return EndTime(started + expected) if expected is not None else None


def _read_expected_duration(meta: ObjectMeta) -> float | None:
    text = meta.annotations.get(EXPECTED_DURATION_ANNOTATION)
    try:
        seconds = durations.parse_seconds(text) if text is not None else 0.0
    except durations.DurationError:
        return None
    return seconds if 0 < seconds < CENTURY else None


def _read_time_limit(meta: ObjectMeta) -> int | None:
    """Return the maximum run time from Kueue's label in seconds, after which Kueue ends the workload.

    Returns None if the label is missing or invalid.
    """
    label = MAX_EXEC_TIME_SECONDS_LABEL
    text = meta.labels.get(label) or meta.annotations.get(label, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else 0
    return number if number > 0 else None
