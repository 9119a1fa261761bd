"""The rules of admission gates (Kueue KEP-6915), which jobs and Workloads name in an annotation."""

from muster.api.kueue.names import ADMISSION_GATED_BY
from muster.api.meta import ObjectMeta
from muster.api.validation.fields import Errors, forbidden, invalid, too_long
from muster.api.validation.jobs.job import validate_domain_prefixed_path
from muster.api.validation.kueue.rules import annotation_path

_MAX_GATE = 63  # bytes
_PATH = annotation_path(ADMISSION_GATED_BY)


def validate_gates(meta: ObjectMeta) -> Errors:
    """Check that each gate is the name of a controller, and unique."""
    text = meta.annotations.get(ADMISSION_GATED_BY, "")
    seen: set[str] = set()
    for gate in _split(text):
        if not gate:
            yield invalid(_PATH, text, "cannot contain empty gate names")
        elif gate in seen:
            yield invalid(_PATH, text, f"duplicate gate name: {gate}")
        else:
            seen.add(gate)
            yield from validate_domain_prefixed_path(_PATH, gate)
            if len(gate.encode()) > _MAX_GATE:
                yield too_long(_PATH, _MAX_GATE)


def validate_removed_gates(new: ObjectMeta, old: ObjectMeta) -> Errors:
    """Check that gates are only removed, because all gates are set at creation."""
    now, before = (meta.annotations.get(ADMISSION_GATED_BY, "") for meta in (new, old))
    if now and not before:
        yield forbidden(_PATH, "cannot add admission gate after creation")
    elif not set(_split(now)) <= set(_split(before)):
        yield forbidden(_PATH, "can only remove gates, not add new ones")


def _split(text: str) -> list[str]:
    return [gate.strip() for gate in text.split(",")] if text.strip() else []
