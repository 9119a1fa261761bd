"""The rules that several Kueue kinds share: their two stages, and the fields that many kinds have.

In upstream, the API server checks the rules of the CRD (CEL and schema), and calls the webhook only for objects that
satisfy them. Muster does the same, so that a user never gets two messages about one error.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import msgspec

from muster.api.core import Toleration
from muster.api.kueue.readiness import READY_ANNOTATION, ReadyAnnotationError, parse_annotation
from muster.api.meta import ObjectMeta
from muster.api.status import FieldError, OfWebhook
from muster.api.validation import names
from muster.api.validation.fields import IMMUTABLE, NOT_NEGATIVE, Errors, invalid
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_label_key
from muster.api.validation.pods.placement import TAINT_EFFECTS
from muster.api.values.quantity import Quantity, QuantityError, format_canonical, parse

# The value in the message of a CRD's rule: the type of an object or a list, or else the value itself.
OBJECT: Final = "object"
ARRAY: Final = "array"

ROOT: Final = "<nil>"  # the path of a rule on a whole object, as Go prints it

_RESOURCE_LISTS = frozenset({"requests", "limits", "overhead", "resourceUsage"})

_EFFECTS = ("", *TAINT_EFFECTS)
KNOWN_EFFECTS: Final = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"


def validate_created(
    metadata: ObjectMeta,
    crd: Iterable[FieldError] = (),
    webhook: Iterable[FieldError] = (),
    *,
    namespaced: bool = False,
) -> list[FieldError]:
    """Return the errors in a new object by the rules of its CRD; if there are none, by the rules of its webhook."""
    meta = new_metadata(metadata, names.dns_subdomain, namespaced=namespaced, custom=True)
    return list(chain(meta, crd)) or OfWebhook(webhook)


def validate_changed(
    new: ObjectMeta, old: ObjectMeta, crd: Iterable[FieldError] = (), webhook: Iterable[FieldError] = ()
) -> list[FieldError]:
    """Return the errors in a change by the rules of the CRD; if there are none, by the rules of the webhook."""
    return list(chain(changed_metadata(new, old, custom=True), crd)) or OfWebhook(webhook)


def annotation_path(name: str) -> str:
    """Return the path of an annotation."""
    return f"metadata.annotations[{name}]"


def validate_readiness(metadata: ObjectMeta) -> Errors:
    """Check Muster's annotation about the readiness of pods."""
    text = metadata.annotations.get(READY_ANNOTATION)
    if text is not None:
        try:
            parse_annotation(text, None)
        except ReadyAnnotationError as error:
            yield invalid(annotation_path(READY_ANNOTATION), text, str(error))


def validate_not_negative(path: str, quantity: Quantity) -> Errors:
    """Check that an amount of a resource is 0 or more."""
    try:
        negative = parse(quantity) < 0
    except QuantityError as error:
        yield invalid(path, quantity, str(error))
        return
    if negative:
        yield invalid(path, format_canonical(quantity), NOT_NEGATIVE)


def is_at_most(quantity: Quantity, most: Quantity) -> bool:
    """Return whether a quantity is at most another one; True if either is invalid, because other rules report that."""
    try:
        return parse(quantity) <= parse(most)
    except QuantityError:
        return True


def show_quantity(quantity: Quantity) -> str:
    """Return an amount in canonical form; any other value as text."""
    try:
        return format_canonical(quantity)
    except QuantityError:
        return str(quantity)


def validate_unchanged(path: str, new: Any, old: Any) -> Errors:
    """Check that the value never changes.

    An amount may be spelled differently, because clients change the spelling.
    """
    if new != old and _make_canonical(msgspec.to_builtins(new)) != _make_canonical(msgspec.to_builtins(old)):
        yield invalid(path, new, IMMUTABLE)


def _make_canonical(value: Any) -> Any:
    """Return the JSON value with all amounts of resources in canonical form."""
    if isinstance(value, list | tuple):
        return [_make_canonical(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {resource: show_quantity(quantity) for resource, quantity in member.items()}
        if key in _RESOURCE_LISTS and isinstance(member, dict)
        else _make_canonical(member)
        for key, member in value.items()
    }


def validate_tolerations(path: str, tolerations: tuple[Toleration, ...]) -> Errors:
    """Check the CRD's rules of a list of tolerations.

    The errors have the path of the list, not of an item.
    """
    for holds, sentence in (
        (
            all(one.key or one.operator == "Exists" for one in tolerations),
            "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        ),
        (
            all(one.toleration_seconds is None or one.effect == "NoExecute" for one in tolerations),
            "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        ),
        (
            all(one.operator in ("", "Equal", "Exists") for one in tolerations),
            "supported toleration values: 'Equal'(default), 'Exists'",
        ),
        (
            not any(one.operator == "Exists" and one.value for one in tolerations),
            "a value must be empty when 'operator' is 'Exists'",
        ),
        (all(one.effect in _EFFECTS for one in tolerations), KNOWN_EFFECTS),
    ):
        if not holds:
            yield invalid(path, ARRAY, sentence)


def validate_toleration_keys(path: str, tolerations: tuple[Toleration, ...]) -> Errors:
    """Check the webhook's rule of tolerations: their keys are valid label keys."""
    for i, toleration in enumerate(tolerations):
        if toleration.key:
            yield from validate_label_key(f"{path}[{i}].key", toleration.key)
