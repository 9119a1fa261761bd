"""When what runs ends, as far as it is known: by a limit that is kept to, or as its user expects."""

from math import inf

from msgspec import Struct

from muster.api.core import Pod
from muster.api.kueue.names import MAX_EXEC_TIME_SECONDS_LABEL
from muster.api.meta import ObjectMeta, controller_of
from muster.api.values import durations

# On a pod, a Job or a group: how long it will run once it has started, as a duration (`1h30m`).
EXPECTED_DURATION_ANNOTATION = "muster.dev/expected-duration"

# Controllers whose pods stay until they are told to go.
_SERVICES = frozenset({"DaemonSet", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"})

_LONGEST_NUMBER = 10

# What is said to last longer is said to last for ever, and means nothing.
_CENTURY = 100 * 365 * 24 * 3600.0


class End(Struct, frozen=True):
    """When something ends, in seconds of the clock by which it started; infinity: not by itself.

    sure: it is ended then, if it has not ended before.
    """

    at: float
    sure: bool = False


NEVER = End(inf, sure=True)


def expected_end(pod: Pod, started: float, carried: End | None = None) -> End | None:
    """When a pod that started then ends; None if that is not known. carried: what is known of its Job or group."""
    own = end_of(pod.metadata, pod.spec.active_deadline_seconds, started)
    found = own if carried is None else carried if own is None else min(own, carried, key=lambda end: end.at)
    if found is None and (owner := controller_of(pod.metadata)) is not None and owner.kind in _SERVICES:
        return NEVER
    return found


def end_of(meta: ObjectMeta, deadline: int | None, started: float) -> End | None:
    """When an object that started then ends. deadline: its `activeDeadlineSeconds`.

    What a user expects counts if it is sooner than what is kept to; words that mean nothing count for nothing.
    """
    limits = [limit for limit in (deadline, _longest(meta)) if limit is not None and limit < _CENTURY]
    expected = _expected(meta)
    if limits and (expected is None or min(limits) <= expected):
        return End(started + min(limits), sure=True)
    return End(started + expected) if expected is not None else None


def _expected(meta: ObjectMeta) -> float | None:
    text = meta.annotations.get(EXPECTED_DURATION_ANNOTATION)
    try:
        seconds = durations.seconds(text) if text is not None else 0.0
    except durations.DurationError:
        return None
    return seconds if 0 < seconds < _CENTURY else None


def _longest(meta: ObjectMeta) -> int | None:
    """Kueue's limit, which ends the workload."""
    label = MAX_EXEC_TIME_SECONDS_LABEL
    text = meta.labels.get(label) or meta.annotations.get(label, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else 0
    return number if number > 0 else None
