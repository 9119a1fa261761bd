"""The annotations that set the readiness of a single job or Workload (Kueue KEP-349)."""

from datetime import datetime

import msgspec

from muster.api.config import WaitForPodsReady
from muster.api.values.durations import DurationError, parse

# The annotation of a Workload (or its job), a ClusterQueue or a ResourceFlavor: `false`, `true`, or the settings that
# differ from the Configuration: `timeout=10m,recoveryTimeout=5m,blockAdmission=true`.
READY_ANNOTATION = "muster.dev/wait-for-pods-ready"

# The annotation of a Workload with the start of its job, where the timeout begins (`timeoutSeconds` of Kueue KEP-349).
JOB_START_ANNOTATION = "muster.dev/job-start"

# The fields of the settings in the annotation.
_DURATIONS = {"timeout": "timeout", "recoveryTimeout": "recovery_timeout"}
_BOOLEANS = {"true": True, "false": False}


class ReadyAnnotationError(ValueError):
    """An invalid annotation about readiness. The message is for the user."""


def parse_annotation(text: str, base: WaitForPodsReady | None) -> WaitForPodsReady | None:
    """Parse the value of `READY_ANNOTATION`. None if it turns readiness off.

    base: the settings to use where the annotation sets none; None for the defaults.

    Raises:
        ReadyAnnotationError: the annotation is invalid.
    """
    if text.strip() == "false":
        return None
    settings = base or WaitForPodsReady()
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and name == "true":
            continue
        settings = msgspec.structs.replace(settings, **_parse_setting(name, value))
    return settings


def parse_job_start(text: str) -> datetime:
    """Parse `JOB_START_ANNOTATION`, a time with its time zone.

    Raises:
        ReadyAnnotationError: the annotation is invalid.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ReadyAnnotationError("must be a time with a time zone, such as 2026-01-31T12:00:00Z")
    return moment


def _parse_setting(name: str, value: str) -> dict[str, int | bool]:
    if name in _DURATIONS:
        try:
            amount = parse(value)
        except DurationError as error:
            raise ReadyAnnotationError(f"{name}: {error}") from None
        if amount < 0:
            raise ReadyAnnotationError(f"{name}: {value} is negative")
        return {_DURATIONS[name]: amount}
    if name == "blockAdmission" and value in _BOOLEANS:
        return {"block_admission": _BOOLEANS[value]}
    raise ReadyAnnotationError(
        f"{name}={value} is not understood; "
        "write false, or timeout=10m, recoveryTimeout=5m, blockAdmission=true, with commas between"
    )
