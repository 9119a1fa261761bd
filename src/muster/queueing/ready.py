"""Level 4, readiness (KEP-349): the pods of an admitted workload get ready in time, or it gives everything back.

The settings come from the Configuration. Beyond upstream they can be given where they are needed: an annotation
`muster.dev/wait-for-pods-ready` on a workload (or its job), a ClusterQueue or a ResourceFlavor says `false`, or
`timeout=10m,recoveryTimeout=5m,blockAdmission=true`; what it leaves out is as in the Configuration. The workload's
counts before the queue's, and the queue's before that of the flavors that it got.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from muster.api.config import WaitForPodsReady
from muster.api.durations import DurationError, parse
from muster.api.kueue.names import (
    ADMITTED,
    PODS_READY,
    RECOVERED,
    STARTED,
    WAIT_FOR_RECOVERY,
    WAIT_FOR_START,
)
from muster.queueing.conditions import Conditions, find, find_true, is_true, put, since

READY_ANNOTATION = "muster.dev/wait-for-pods-ready"

# On a Workload: when its job began, for a timeout that counts from there (KEP-349's `timeoutSeconds`).
JOB_START_ANNOTATION = "muster.dev/job-start"

# Which of an annotation's settings is which.
_DURATIONS = {"timeout": "timeout", "recoveryTimeout": "recovery_timeout"}
_BOOLEANS = {"true": True, "false": False}


class ReadyAnnotationError(ValueError):
    """The annotation is not understood; the text is for the user."""


def parse_annotation(text: str, base: WaitForPodsReady | None) -> WaitForPodsReady | None:
    """What an annotation says, the rest from `base`; None is off. Raises `ReadyAnnotationError`."""
    if text.strip() == "false":
        return None
    settings = base or WaitForPodsReady()
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and name == "true":
            continue
        settings = msgspec.structs.replace(settings, **_setting(name, value))
    return settings


def _setting(name: str, value: str) -> dict[str, int | bool]:
    if name in _DURATIONS:
        try:
            amount = parse(value)
        except DurationError as error:
            raise ReadyAnnotationError(f"{READY_ANNOTATION}: {name}: {error}") from None
        if amount < 0:
            raise ReadyAnnotationError(f"{READY_ANNOTATION}: {name}: {value} is negative")
        return {_DURATIONS[name]: amount}
    if name == "blockAdmission" and value in _BOOLEANS:
        return {"block_admission": _BOOLEANS[value]}
    raise ReadyAnnotationError(
        f"{READY_ANNOTATION}: {name}={value} is not understood; "
        "write false, or timeout=10m, recoveryTimeout=5m, blockAdmission=true, with commas between"
    )


def settings_for(
    base: WaitForPodsReady | None,
    workload: Mapping[str, str],
    queue: Mapping[str, str],
    flavors: Iterable[Mapping[str, str]],
) -> WaitForPodsReady | None:
    """What holds for a workload, by the annotations of itself, its ClusterQueue, and the flavors that it got.

    An annotation that is not understood is as if it were not there: it is refused where it is written.
    """
    for annotations in (workload, queue, *flavors):
        if (text := annotations.get(READY_ANNOTATION)) is not None:
            try:
                return parse_annotation(text, base)
            except ReadyAnnotationError:
                continue
    return base


def with_readiness(conditions: Conditions, ready: bool, now: datetime) -> Conditions:
    """The conditions with PodsReady, by whether the pods of the workload's job are (upstream rule).

    Once they were ready, a lack is one to recover from, until the workload is no longer admitted.
    """
    condition = find(conditions, PODS_READY)
    if not is_true(conditions, ADMITTED):
        return put(conditions, PODS_READY, False, WAIT_FOR_START, "Not all pods are ready or succeeded", now)
    recovering = condition is not None and condition.reason in (WAIT_FOR_RECOVERY, RECOVERED)
    if ready:
        reason = RECOVERED if recovering else STARTED
        return put(conditions, PODS_READY, True, reason, "All pods reached readiness and the workload is running", now)
    if recovering or is_true(conditions, PODS_READY):
        message = "At least one pod has failed, waiting for recovery"
        return put(conditions, PODS_READY, False, WAIT_FOR_RECOVERY, message, now)
    return put(conditions, PODS_READY, False, WAIT_FOR_START, "Not all pods are ready or succeeded", now)


def deadline(
    conditions: Conditions, annotations: Mapping[str, str], settings: WaitForPodsReady
) -> tuple[datetime, str] | None:
    """By when the pods of an admitted workload have to be ready, and what it waits for; None if nothing is late ever.

    A start counts from the Admitted condition, or from the start of the job where the settings say so; a recovery
    from the moment at which the pods were no longer ready.
    """
    admitted = find_true(conditions, ADMITTED)
    if admitted is None or admitted.last_transition_time is None:
        return None
    condition = find(conditions, PODS_READY)
    if condition is None or (condition.status == "False" and condition.reason == WAIT_FOR_START):
        start = admitted.last_transition_time
        if settings.clock == "JobStart":
            written = annotations.get(JOB_START_ANNOTATION)
            if written is None:
                return None
            start = max(start, datetime.fromisoformat(written))
        return start + timedelta(microseconds=settings.timeout // 1000), WAIT_FOR_START
    if condition.status == "False" and settings.recovery_timeout:
        lost = since(condition, admitted.last_transition_time)
        return lost + timedelta(microseconds=settings.recovery_timeout // 1000), WAIT_FOR_RECOVERY
    return None
