"""Estimate when running pods end: by an enforced limit, or by the user's expectation."""

from math import inf

from msgspec import Struct

from muster.api.core import Pod
from muster.api.kueue.names import MAX_EXEC_TIME_SECONDS_LABEL
from muster.api.meta import ObjectMeta, controller_of
from muster.api.values import durations

# On a pod, a Job or a group: the expected run time from its start, as a duration (`1h30m`).
EXPECTED_DURATION_ANNOTATION = "muster.dev/expected-duration"

# Controllers whose pods run until they are deleted.
_SERVICES = frozenset({"DaemonSet", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"})

_LONGEST_NUMBER = 10

# A longer duration stands for no limit, and is ignored.
_CENTURY = 100 * 365 * 24 * 3600.0


class EndTime(Struct, frozen=True, cache_hash=True):
    """When a pod or a gang ends, in seconds of the clock by which it started.

    at: infinity if it does not end by itself.
    is_enforced: whether an enforced limit ends it at that time at the latest.
    """

    at: float
    is_enforced: bool = False


NEVER = EndTime(inf, is_enforced=True)


def expected_end(pod: Pod, started: float, carried: EndTime | None = None) -> EndTime | None:
    """Return when a pod that started at `started` ends; None if that is unknown.

    carried: the end that the pod's Job or group defines; None if it defines none.
    """
    own = end_of(pod.metadata, pod.spec.active_deadline_seconds, started)
    end = own if carried is None else carried if own is None else min(own, carried, key=lambda one: one.at)
    if end is None and (owner := controller_of(pod.metadata)) is not None and owner.kind in _SERVICES:
        return NEVER
    return end


def end_of(meta: ObjectMeta, deadline: int | None, started: float) -> EndTime | None:
    """Return when an object that started at `started` ends; None if nothing tells. deadline: `activeDeadlineSeconds`.

    The user's expectation counts if it is sooner than the enforced limits. An invalid or absurdly long expectation is
    ignored.
    """
    limits = [limit for limit in (deadline, _read_time_limit(meta)) if limit is not None and limit < _CENTURY]
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
    return seconds if 0 < seconds < _CENTURY else None


def _read_time_limit(meta: ObjectMeta) -> int | None:
    """Return the maximum run time of Kueue's label in seconds, after which Kueue ends the workload; None without."""
    label = MAX_EXEC_TIME_SECONDS_LABEL
    text = meta.labels.get(label) or meta.annotations.get(label, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else 0
    return number if number > 0 else None
