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
    readiness,
    toleration_keys,
    tolerations,
    validate_changed,
    validate_created,
)
from muster.api.validation.metadata import label_key, labels
from muster.api.validation.pods.placement import TAINT_EFFECTS


def validate_create(flavor: ResourceFlavor) -> list[FieldError]:
    """Return the errors in a new ResourceFlavor."""
    return validate_created(flavor.metadata, _crd(flavor.spec, ""), _webhook(flavor))


def validate_update(new: ResourceFlavor, old: ResourceFlavor) -> list[FieldError]:
    """Return the errors in a change of a ResourceFlavor."""
    return validate_changed(new.metadata, old.metadata, _crd(new.spec, old.spec.topology_name), _webhook(new))


def _crd(spec: ResourceFlavorSpec, old_topology: str) -> Errors:
    if spec.topology_name and not spec.node_labels:
        yield invalid("spec", OBJECT, "at least one nodeLabel is required when topology is set")
    if old_topology and spec.topology_name != old_topology:
        yield invalid("spec", OBJECT, "topologyName is immutable when topologyName is set")
    if any(taint.effect not in TAINT_EFFECTS for taint in spec.node_taints):
        yield invalid("spec.nodeTaints", ARRAY, KNOWN_EFFECTS)
    yield from tolerations("spec.tolerations", spec.tolerations)


def _webhook(flavor: ResourceFlavor) -> Errors:
    spec = flavor.spec
    yield from labels("spec.nodeLabels", spec.node_labels)
    yield from _taints("spec.nodeTaints", spec.node_taints)
    yield from toleration_keys("spec.tolerations", spec.tolerations)
    yield from readiness(flavor.metadata)


def _taints(path: str, taints: tuple[Taint, ...]) -> Errors:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        place = f"{path}[{i}]"
        yield from label_key(f"{place}.key", taint.key)
        if messages := names.label_value(taint.value):
            yield invalid(f"{place}.value", taint.value, ";".join(messages))
        if (taint.key, taint.effect) in seen:
            yield duplicate(place, taint, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))
