"""The rules of Events of `events.k8s.io/v1`, which are stricter than in the core group and allow few changes.

As in upstream, the paths name fields of the core Event, because both are views of one object.
"""

from datetime import datetime

from muster.api.groups.events import Event
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.core.event import validate_reporter, validate_texts
from muster.api.validation.fields import Errors, invalid, make_errors, required, validate_immutable
from muster.api.validation.metadata import changed_metadata, new_metadata

_UNSET = "needs to be unset"


def validate_create(event: Event) -> list[FieldError]:
    """Return the errors in a new Event."""
    return [
        *_validate_common_fields(event),
        *new_metadata(event.metadata, names.dns_subdomain),
        *_validate_series(event),
        *_validate_new_event(event),
    ]


def validate_update(new: Event, old: Event) -> list[FieldError]:
    """Return the errors in a change of an Event, of which only the series may change."""
    return [
        *_validate_common_fields(new),
        *changed_metadata(new.metadata, old.metadata),
        *_validate_immutable_fields(new, old),
    ]


def _validate_common_fields(event: Event) -> Errors:
    about, namespace = event.regarding.namespace, event.metadata.namespace
    if event.event_time is not None:
        if not about and namespace not in ("default", "kube-system"):
            yield invalid("involvedObject.namespace", about, "does not match event.namespace")
        yield from validate_reporter("reportingController", event.reporting_controller, event.reporting_instance)
        yield from validate_texts(event.action, event.reason, event.note)
    yield from make_errors("namespace", namespace, names.dns_subdomain(namespace))


def _validate_series(event: Event) -> Errors:
    if event.series is None:
        return
    if event.series.count < 2:
        yield invalid("series.count", "", "should be at least 2")
    if event.series.last_observed_time is None:
        yield required("series.lastObservedTime")


def _validate_new_event(event: Event) -> Errors:
    if event.event_time is None:
        yield required("eventTime")
    if event.type not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {event.type}")
    for path, value in (
        ("firstTimestamp", event.deprecated_first_timestamp),
        ("lastTimestamp", event.deprecated_last_timestamp),
        ("count", event.deprecated_count),
        ("source", event.deprecated_source.component or event.deprecated_source.host),
    ):
        if value:
            yield invalid(path, "", _UNSET)


def _validate_immutable_fields(new: Event, old: Event) -> Errors:
    if new.series != old.series:
        yield from _validate_series(new)
    for path, field in (
        ("involvedObject", "regarding"),
        ("reason", "reason"),
        ("message", "note"),
        ("source", "deprecated_source"),
        ("firstTimestamp", "deprecated_first_timestamp"),
        ("lastTimestamp", "deprecated_last_timestamp"),
        ("count", "deprecated_count"),
        ("type", "type"),
        ("eventTime", "event_time"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reporting_controller"),
        ("reportingInstance", "reporting_instance"),
    ):
        yield from validate_immutable(path, _format_value(getattr(new, field)), _format_value(getattr(old, field)))


def _format_value(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
