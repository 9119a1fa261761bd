"""Rules that several Kueue kinds share: their two stages, and the fields that many kinds have.

Upstream the API server checks the rules of the CRD (CEL, beside the schema), and asks the webhook only about objects
that keep them. So do we: a user never reads the same thing twice in different words.
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
from muster.api.validation.metadata import changed_metadata, label_key, new_metadata
from muster.api.validation.pods.placement import TAINT_EFFECTS
from muster.api.values.quantity import Quantity, QuantityError, canonical, parse

# The value in the sentence of a CRD's rule: of objects and lists only their type, of anything else the value.
OBJECT: Final = "object"
ARRAY: Final = "array"

ROOT: Final = "<nil>"  # the path of a rule on a whole object, as Go prints it

_RESOURCE_LISTS = frozenset({"requests", "limits", "overhead", "resourceUsage"})

_EFFECTS = ("", *TAINT_EFFECTS)
KNOWN_EFFECTS: Final = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"


def created(
    metadata: ObjectMeta,
    crd: Iterable[FieldError] = (),
    webhook: Iterable[FieldError] = (),
    *,
    namespaced: bool = False,
) -> list[FieldError]:
    """Return what is wrong with a new object, by the rules of its CRD or else of its webhook."""
    meta = new_metadata(metadata, names.dns_subdomain, namespaced=namespaced, custom=True)
    return list(chain(meta, crd)) or OfWebhook(webhook)


def changed(
    new: ObjectMeta, old: ObjectMeta, crd: Iterable[FieldError] = (), webhook: Iterable[FieldError] = ()
) -> list[FieldError]:
    """Return what is wrong with a change, by the rules of its CRD or else of its webhook."""
    return list(chain(changed_metadata(new, old, custom=True), crd)) or OfWebhook(webhook)


def annotation_path(name: str) -> str:
    """Return the path of an annotation."""
    return f"metadata.annotations[{name}]"


def readiness(metadata: ObjectMeta) -> Errors:
    """Check our annotation about the time in which pods must get ready."""
    text = metadata.annotations.get(READY_ANNOTATION)
    if text is not None:
        try:
            parse_annotation(text, None)
        except ReadyAnnotationError as error:
            yield invalid(annotation_path(READY_ANNOTATION), text, str(error))


def not_negative(path: str, quantity: Quantity) -> Errors:
    """Check an amount of a resource, which is 0 or more."""
    try:
        negative = parse(quantity) < 0
    except QuantityError as error:
        yield invalid(path, quantity, str(error))
        return
    if negative:
        yield invalid(path, canonical(quantity), NOT_NEGATIVE)


def at_most(quantity: Quantity, most: Quantity) -> bool:
    """Return whether one amount is no more than the other; true for values that are no amounts."""
    try:
        return parse(quantity) <= parse(most)
    except QuantityError:
        return True


def shown(quantity: Quantity) -> str:
    """Return the amount as the API server writes it; other values as they are."""
    try:
        return canonical(quantity)
    except QuantityError:
        return str(quantity)


def unchanged(path: str, new: Any, old: Any) -> Errors:
    """Check that the value never changes.

    An amount may be spelled differently, as clients that read and write it do.
    """
    if new != old and _meaning(msgspec.to_builtins(new)) != _meaning(msgspec.to_builtins(old)):
        yield invalid(path, new, IMMUTABLE)


def _meaning(value: Any) -> Any:
    """Return the same JSON with amounts of resources in their one form."""
    if isinstance(value, list | tuple):
        return [_meaning(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {resource: shown(quantity) for resource, quantity in member.items()}
        if key in _RESOURCE_LISTS and isinstance(member, dict)
        else _meaning(member)
        for key, member in value.items()
    }


def tolerations(path: str, given: tuple[Toleration, ...]) -> Errors:
    """Check the CRD's rules of a list of tolerations.

    Each is broken by the list, not by one of its items.
    """
    for holds, sentence in (
        (
            all(one.key or one.operator == "Exists" for one in given),
            "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        ),
        (
            all(one.toleration_seconds is None or one.effect == "NoExecute" for one in given),
            "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        ),
        (
            all(one.operator in ("", "Equal", "Exists") for one in given),
            "supported toleration values: 'Equal'(default), 'Exists'",
        ),
        (
            not any(one.operator == "Exists" and one.value for one in given),
            "a value must be empty when 'operator' is 'Exists'",
        ),
        (all(one.effect in _EFFECTS for one in given), KNOWN_EFFECTS),
    ):
        if not holds:
            yield invalid(path, ARRAY, sentence)


def toleration_keys(path: str, given: tuple[Toleration, ...]) -> Errors:
    """Check the webhook's rule of a list of tolerations."""
    for i, toleration in enumerate(given):
        if toleration.key:
            yield from label_key(f"{path}[{i}].key", toleration.key)
