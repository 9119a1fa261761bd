"""Enforce readiness (level 4, waitForPodsReady, Kueue KEP-349): evict a workload whose pods are not ready in time.

The settings come from the Configuration. Unlike upstream's, they can also be set for one object, by the annotation
`muster.dev/wait-for-pods-ready` on a workload (or its job), a ClusterQueue or a ResourceFlavor. The annotation contains
`false`, or `timeout=10m,recoveryTimeout=5m,blockAdmission=true`. Settings that an annotation leaves out come from the
Configuration.

The workload's annotation takes precedence over its queue's, and the queue's over those of the workload's flavors.
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
from muster.queueing.conditions import Conditions, find_last_change, put
from muster.queueing.moments import shift_moment

# Reasons of PodsReady=False before the pods were first ready. The second reason is from older releases.
_NEVER_READY = (WAIT_FOR_START, PODS_READY)


def settings_for(
    base: WaitForPodsReady | None,
    workload: Mapping[str, str],
    queue: Mapping[str, str],
    flavors: Iterable[Mapping[str, str]],
) -> WaitForPodsReady | None:
    """Return a workload's settings by the annotations of itself, its ClusterQueue and its flavors; None for no timeout.

    A malformed annotation is ignored, because it is refused when it is written.
    """
    for annotations in (workload, queue, *flavors):
        if (text := annotations.get(READY_ANNOTATION)) is not None:
            try:
                return parse_annotation(text, base)
            except ReadyAnnotationError:
                continue
    return base


def read_blocking(text: str, base: WaitForPodsReady | None) -> bool | None:
    """Return whether an annotation blocks the admission of other workloads until the pods are ready.

    base: the settings that the annotation refines.

    Return None if the annotation is malformed.
    """
    try:
        settings = parse_annotation(text, base)
    except ReadyAnnotationError:
        return None
    return settings is not None and settings.block_admission


def with_readiness(conditions: Conditions, ready: bool, now: datetime) -> Conditions:
    """Return the conditions with PodsReady set, by whether the pods of the workload's job are ready (upstream rule).

    If the pods were ready before in this admission, the reason of False is that they have to recover.
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


def begin_readiness(conditions: Conditions, now: datetime) -> Conditions:
    """Return the conditions of a workload that is being admitted, with PodsReady if they have no such condition yet.

    So the first report of the job's pods needs no write of its own.
    """
    if not is_true(conditions, ADMITTED) or find(conditions, PODS_READY) is not None:
        return conditions
    return with_readiness(conditions, False, now)


def find_deadline(
    conditions: Conditions, annotations: Mapping[str, str], settings: WaitForPodsReady
) -> tuple[datetime, str] | None:
    """Return the time by which the pods of an admitted workload must be ready, and what it waits for.

    Return None if there is no limit. The limit for a start is measured from the Admitted condition, or from the start
    of the job if the settings request that. The limit for a recovery is measured from the time at which the pods were
    no longer ready.
    """
    admitted = find_true(conditions, ADMITTED)
    if admitted is None or admitted.last_transition_time is None:
        return None
    condition = find(conditions, PODS_READY)
    if condition is None or (condition.status == "False" and condition.reason in _NEVER_READY):
        start = _find_start(admitted.last_transition_time, annotations, settings)
        return None if start is None else (_add_nanoseconds(start, settings.timeout), WAIT_FOR_START)
    if condition.status == "False" and condition.reason == WAIT_FOR_RECOVERY and settings.recovery_timeout:
        unready_since = find_last_change(condition, admitted.last_transition_time)
        return _add_nanoseconds(unready_since, settings.recovery_timeout), WAIT_FOR_RECOVERY
    return None


def _find_start(admitted: datetime, annotations: Mapping[str, str], settings: WaitForPodsReady) -> datetime | None:
    """Return the time from which the limit for a start is measured; None if that time is not known yet."""
    if settings.clock == "Admitted":
        return admitted
    if (text := annotations.get(JOB_START_ANNOTATION)) is None:
        return None
    try:
        # A start recorded in an earlier admission is older than this admission.
        return max(admitted, parse_job_start(text))
    except ReadyAnnotationError:
        return admitted


def _add_nanoseconds(moment: datetime, nanoseconds: int) -> datetime:
    return shift_moment(moment, timedelta(microseconds=nanoseconds // 1000))
