"""The rules of Nodes (k8s.io/kubernetes/pkg/apis/core/validation)."""

from muster.api.core import Node, NodeStatus, Taint
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.addresses import validate_network
from muster.api.validation.fields import Errors, duplicate, forbidden, invalid, required
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_label_key
from muster.api.validation.pods.placement import validate_taint_effect
from muster.api.validation.resources import validate_amount


def validate_create(node: Node) -> list[FieldError]:
    """Return the errors in a new Node with its defaults."""
    return [
        *new_metadata(node.metadata, names.dns_subdomain, namespaced=False),
        *_validate_taints(node.spec.taints),
        *_validate_amounts(node.status),
        *_validate_pod_networks(node),
    ]


def validate_update(new: Node, old: Node) -> list[FieldError]:
    """Return the errors in a change of a Node."""
    return [
        *changed_metadata(new.metadata, old.metadata),
        *_validate_amounts(new.status),
        *_validate_addresses(new.status),
        *_validate_immutable_fields(new, old),
        *_validate_taints(new.spec.taints),
    ]


def validate_status_update(new: Node, old: Node) -> list[FieldError]:
    """Return the errors in a change of a Node's status, by the rules of `validate_update`."""
    return validate_update(new, old)


def _validate_taints(taints: tuple[Taint, ...]) -> Errors:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        path = f"metadata.taints[{i}]"  # upstream's path, although the taints are in the spec
        yield from validate_label_key(f"{path}.key", taint.key)
        if messages := names.label_value(taint.value):
            yield invalid(f"{path}.value", taint.value, ";".join(messages))
        if not taint.effect:
            yield required(f"{path}.effect")
        else:
            yield from validate_taint_effect(f"{path}.effect", taint.effect)
        if (taint.key, taint.effect) in seen:
            yield duplicate(path, taint, "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def _validate_amounts(status: NodeStatus) -> Errors:
    for field, resources in (("capacity", status.capacity), ("allocatable", status.allocatable)):
        for resource, quantity in resources.items():
            yield from validate_amount(f"status.{field}.{resource}", resource, quantity)


def _validate_pod_networks(node: Node) -> Errors:
    for i, text in enumerate(node.spec.pod_cidrs):
        yield from validate_network(f"spec.podCIDRs[{i}]", text)
    if len(node.spec.pod_cidrs) > 2:
        sentence = "may specify no more than one CIDR for each IP family"
        yield invalid("spec.podCIDRs", node.spec.pod_cidrs, sentence)


def _validate_addresses(status: NodeStatus) -> Errors:
    seen: set[tuple[str, str]] = set()
    for i, address in enumerate(status.addresses):
        key = (address.type, address.address)
        if key in seen:
            yield duplicate(f"status.addresses[{i}]", address)
        seen.add(key)


def _validate_immutable_fields(new: Node, old: Node) -> Errors:
    if old.spec.pod_cidrs and new.spec.pod_cidrs != old.spec.pod_cidrs:
        yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    if new.spec.external_id != old.spec.external_id:
        yield forbidden("spec.externalID", "may not be updated")
