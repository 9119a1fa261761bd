"""The rules of ResourceFlavors."""

from muster.api.core import Taint
from muster.api.kueue import ResourceFlavor, ResourceFlavorSpec
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, duplicate, invalid
from muster.api.validation.kueue.rules import (
    ARRAY,
    KNOWN_EFFECTS,
    OBJECT,
    validate_changed,
    validate_created,
    validate_readiness,
    validate_toleration_keys,
    validate_tolerations,
)
from muster.api.validation.metadata import validate_label_key, validate_labels
from muster.api.validation.pods.placement import TAINT_EFFECTS


def validate_create(flavor: ResourceFlavor) -> list[FieldError]:
    """Return the errors in a new ResourceFlavor."""
    return validate_created(flavor.metadata, _validate_crd_rules(flavor.spec, ""), _validate_webhook_rules(flavor))


def validate_update(new: ResourceFlavor, old: ResourceFlavor) -> list[FieldError]:
    """Return the errors in a change of a ResourceFlavor."""
    return validate_changed(
        new.metadata, old.metadata, _validate_crd_rules(new.spec, old.spec.topology_name), _validate_webhook_rules(new)
    )


def _validate_crd_rules(spec: ResourceFlavorSpec, old_topology: str) -> Errors:
    if spec.topology_name and not spec.node_labels:
        yield invalid("spec", OBJECT, "at least one nodeLabel is required when topology is set")
    if old_topology and spec.topology_name != old_topology:
        yield invalid("spec", OBJECT, "topologyName is immutable when topologyName is set")
    if any(taint.effect not in TAINT_EFFECTS for taint in spec.node_taints):
        yield invalid("spec.nodeTaints", ARRAY, KNOWN_EFFECTS)
    yield from validate_tolerations("spec.tolerations", spec.tolerations)


def _validate_webhook_rules(flavor: ResourceFlavor) -> Errors:
    spec = flavor.spec
    yield from validate_labels("spec.nodeLabels", spec.node_labels)
    yield from _validate_taints("spec.nodeTaints", spec.node_taints)
    yield from validate_toleration_keys("spec.tolerations", spec.tolerations)
    yield from validate_readiness(flavor.metadata)


def _validate_taints(path: str, taints: tuple[Taint, ...]) -> Errors:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        place = f"{path}[{i}]"
        yield from validate_label_key(f"{place}.key", taint.key)
        if messages := names.label_value(taint.value):
            yield invalid(f"{place}.value", taint.value, ";".join(messages))
        if (taint.key, taint.effect) in seen:
            yield duplicate(place, taint, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))
