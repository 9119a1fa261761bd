"""The rules of Events as the core group writes them (k8s.io/kubernetes/pkg/apis/core/validation/events.go)."""

from muster.api.core import Event
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, invalid, make_errors, required

MAX_INSTANCE = 128
MAX_ACTION = 128
MAX_REASON = 128
MAX_NOTE = 1024
_MISMATCH = "does not match event.namespace"


def validate_create(event: Event) -> list[FieldError]:
    """Return the errors in a new Event. An Event with an eventTime has stricter rules."""
    return list(_validate_event(event))


def validate_update(new: Event, _old: Event) -> list[FieldError]:
    """Return the errors in the new version of an Event. The old version does not matter."""
    return list(_validate_event(new))


def _validate_event(event: Event) -> Errors:
    path, about = "involvedObject.namespace", event.involved_object.namespace
    namespace = event.metadata.namespace
    if event.event_time is None:
        if namespace != about and not (not about and namespace == "default"):
            yield invalid(path, about, _MISMATCH)
    else:
        if not about and namespace not in ("default", "kube-system"):
            yield invalid(path, about, _MISMATCH)
        yield from validate_reporter("reportingComponent", event.reporting_component, event.reporting_instance)
        yield from validate_texts(event.action, event.reason, event.message)
    yield from make_errors("namespace", namespace, names.dns_subdomain(namespace))


def validate_reporter(path: str, controller: str, instance: str) -> Errors:
    """Yield the errors in the names of the controller that reports an event, and of its instance."""
    if not controller:
        yield required(path)
    yield from make_errors(path, controller, names.label_key(controller))
    if not instance:
        yield required("reportingInstance")
    if len(instance.encode()) > MAX_INSTANCE:
        yield invalid("reportingInstance", "", f"can have at most {MAX_INSTANCE} characters")


def validate_texts(action: str, reason: str, note: str) -> Errors:
    """Yield the errors in the event's texts."""
    for path, text, limit in (("action", action, MAX_ACTION), ("reason", reason, MAX_REASON)):
        if not text:
            yield required(path)
        if len(text.encode()) > limit:
            yield invalid(path, "", f"can have at most {limit} characters")
    if len(note.encode()) > MAX_NOTE:
        yield invalid("message", "", f"can have at most {MAX_NOTE} characters")
