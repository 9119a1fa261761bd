"""The rules of PriorityClasses (k8s.io/kubernetes/pkg/apis/scheduling/validation)."""

from muster.api.groups.scheduling import PriorityClass
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, forbidden, validate_immutable
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.pods.podspec import validate_preemption_policy

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES = {
    "system-node-critical": 2 * HIGHEST_USER_PRIORITY + 1000,
    "system-cluster-critical": 2 * HIGHEST_USER_PRIORITY,
}


def validate_create(priority_class: PriorityClass) -> list[FieldError]:
    """Return the errors in a new PriorityClass with its defaults."""
    meta = priority_class.metadata
    return [*new_metadata(meta, names.dns_subdomain, namespaced=False), *_validate_value(priority_class)]


def validate_update(new: PriorityClass, old: PriorityClass) -> list[FieldError]:
    """Return the errors in a change of a PriorityClass, whose value and preemption policy are immutable."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_immutable_fields(new, old)]


def _validate_value(priority_class: PriorityClass) -> Errors:
    name = priority_class.metadata.name
    if name.startswith(SYSTEM_PREFIX):
        problem = _find_system_problem(priority_class)
        if problem:
            reserved = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only"
            yield forbidden("metadata.name", f"{reserved}. error: {problem}")
    elif priority_class.value > HIGHEST_USER_PRIORITY:
        sentence = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden("value", sentence)
    if priority_class.preemption_policy is not None:
        yield from validate_preemption_policy("preemptionPolicy", priority_class.preemption_policy)


def _find_system_problem(priority_class: PriorityClass) -> str:
    name = priority_class.metadata.name
    value = SYSTEM_CLASSES.get(name)
    if value is None:
        return f"{name} is not a known system priority class"
    if priority_class.value != value:
        return f"value of {name} PriorityClass must be {value}"
    return f"globalDefault of {name} PriorityClass must be false" if priority_class.global_default else ""


def _validate_immutable_fields(new: PriorityClass, old: PriorityClass) -> Errors:
    if new.value != old.value:
        yield forbidden("value", "may not be changed in an update.")
    yield from validate_immutable("preemptionPolicy", new.preemption_policy, old.preemption_policy)
