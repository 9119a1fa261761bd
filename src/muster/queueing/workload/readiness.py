"""Level 4, readiness (waitForPodsReady, KEP-349): pods of an admitted workload are ready in time, or it gives all back.

The settings come from the Configuration. Beyond upstream they can be given where they are needed: an annotation
`muster.dev/wait-for-pods-ready` on a workload (or its job), a ClusterQueue or a ResourceFlavor says `false`, or
`timeout=10m,recoveryTimeout=5m,blockAdmission=true`; what it leaves out is as in the Configuration. The workload's
counts before the queue's, and the queue's before that of the flavors that it got.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from muster.api.conditions import find, find_true, is_true
from muster.api.config import WaitForPodsReady
from muster.api.kueue.names import (
    ADMITTED,
    PODS_READY,
    RECOVERED,
    STARTED,
    WAIT_FOR_RECOVERY,
    WAIT_FOR_START,
)
from muster.api.kueue.readiness import (
    JOB_START_ANNOTATION,
    READY_ANNOTATION,
    ReadyAnnotationError,
    parse_annotation,
    parse_job_start,
)
from muster.queueing.conditions import Conditions, put, since
from muster.queueing.moments import later

# Reasons of PodsReady=False before the pods were ready for the first time; the second is that of older releases.
_NEVER_READY = (WAIT_FOR_START, PODS_READY)


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
    if condition is None or (condition.status == "False" and condition.reason in _NEVER_READY):
        start = _start(admitted.last_transition_time, annotations, settings)
        return None if start is None else (_after(start, settings.timeout), WAIT_FOR_START)
    if condition.status == "False" and condition.reason == WAIT_FOR_RECOVERY and settings.recovery_timeout:
        lost = since(condition, admitted.last_transition_time)
        return _after(lost, settings.recovery_timeout), WAIT_FOR_RECOVERY
    return None


def _start(admitted: datetime, annotations: Mapping[str, str], settings: WaitForPodsReady) -> datetime | None:
    """What a start counts from; None if that has not happened yet."""
    if settings.clock == "Admitted":
        return admitted
    if (written := annotations.get(JOB_START_ANNOTATION)) is None:
        return None
    try:
        # What is left from an earlier admission is older than this one.
        return max(admitted, parse_job_start(written))
    except ReadyAnnotationError:
        return admitted


def _after(moment: datetime, nanoseconds: int) -> datetime:
    return later(moment, timedelta(microseconds=nanoseconds // 1000))
