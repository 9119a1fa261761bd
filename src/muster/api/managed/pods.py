"""The decisions about plain pods that queue (Kueue KEP-976): their gates, groups and roles.

A pod that queues has a gate that keeps it off nodes until admission. The pod also has a finalizer, so that controllers
see its end before its deletion. The pods of a group have the name and the size of the group. The *role* of a pod is a
hash of the fields that matter for admission, the same as Kueue's. An annotation stores the role, which names a podset.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from typing import Any, Final

import msgspec

from muster.api.core import Container, Pod, PodSpec
from muster.api.kueue.names import (
    ADMISSION_GATE,
    MANAGED_FINALIZER,
    MANAGED_LABEL,
    POD_GROUP_NAME_LABEL,
    POD_GROUP_TOTAL_COUNT,
    POD_SUSPENDING_PARENT,
    PREBUILT_WORKLOAD_NAME_LABEL,
    QUEUE_NAME_LABEL,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
    TOPOLOGY_GATE,
)
from muster.api.managed.ancestry import managed_ancestor
from muster.api.managed.jobs import find_forbidden_changes, prebuilt_name, validate_queueing_metadata
from muster.api.managed.podgroup import group_name
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.managed.topology import validate_annotations
from muster.api.meta import ObjectMeta
from muster.api.pods import is_finished
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, forbidden, invalid, make_errors, required, validate_immutable
from muster.api.validation.kueue.rules import annotation_path
from muster.api.values.quantity import QuantityError, ResourceList, format_canonical

_ROLE_LENGTH = 8
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)

# The labels and annotations that control how a pod queues.
WORDS = (QUEUE_NAME_LABEL, MANAGED_LABEL, POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT, PREBUILT_WORKLOAD_NAME_LABEL,
          POD_SUSPENDING_PARENT)  # fmt: skip

# Go's encoder escapes its output for HTML.
_HTML: Final = ((b"&", rb"\u0026"), (b"<", rb"\u003c"), (b">", rb"\u003e"))


def controls_queueing(metadata: Mapping[str, Any]) -> bool:
    """Return whether a pod's metadata, as JSON, have labels or annotations that control queueing."""
    said = [part for field in ("labels", "annotations") if isinstance(part := metadata.get(field), dict)]
    return any(word in part for part in said for word in WORDS)


def is_managed(meta: ObjectMeta) -> bool:
    """Return whether the pod queues by itself, by Kueue's label `kueue.x-k8s.io/managed`."""
    return meta.labels.get(MANAGED_LABEL) == "true"


def is_held(pod: Pod) -> bool:
    """Return whether the pod has the scheduling gate that admission removes."""
    return any(gate.name == ADMISSION_GATE for gate in pod.spec.scheduling_gates)


def waits_for_place(pod: Pod) -> bool:
    """Return whether the pod has the gate of topology-aware scheduling.

    Kueue's webhook sets that gate on every pod that queues.
    """
    return any(gate.name == TOPOLOGY_GATE for gate in pod.spec.scheduling_gates)


def group_size(meta: ObjectMeta) -> int:
    """Return the number of pods in the group of a pod; 0 if the annotation is missing or invalid."""
    text = meta.annotations.get(POD_GROUP_TOTAL_COUNT, "")
    return max(int(text), 0) if _INTEGER.fullmatch(text) else 0


def is_unretriable(meta: ObjectMeta) -> bool:
    """Return whether the pod forbids replacing failed pods of its group."""
    return meta.annotations.get(RETRIABLE_IN_GROUP) == "false"


# The role.


def role_of(pod: Pod) -> str:
    """Return the hash that distinguishes the roles of a group's pods (`role_hash`), as of the pod's creation.

    Raises:
        QuantityError: a request of the pod is invalid.
    """
    return pod.metadata.annotations.get(ROLE_HASH) or role_hash(pod.spec)


def role_hash(spec: PodSpec) -> str:
    """Return a hash of the fields that distinguish pods for admission.

    Raises:
        QuantityError: a request of the pod is invalid.
    """
    shape: dict[str, Any] = {
        "affinity": spec.affinity,
        "containers": _describe_containers(spec.containers),
        "initContainers": _describe_containers(spec.init_containers),
        "nodeSelector": spec.node_selector or None,
        "overhead": _write_amounts(spec.overhead),
        "priority": spec.priority,
        "resourceClaims": spec.resource_claims or None,
        "runtimeClassName": spec.runtime_class_name,
        "tolerations": spec.tolerations or None,
        "topologySpreadConstraints": spec.topology_spread_constraints or None,
    }
    if spec.resources is not None:
        shape["resources"] = _write_amounts(spec.resources.requests)
    return hash_of_shape(shape)


def hash_of_shape(shape: dict[str, Any]) -> str:
    """Return the start of the SHA-256 hash of the JSON that Go writes: maps sorted by key, absent values as null."""
    text = msgspec.json.encode({"spec": shape}, order="deterministic")
    for character, escape in _HTML:
        text = text.replace(character, escape)
    return sha256(text).hexdigest()[:_ROLE_LENGTH]


def _describe_containers(containers: tuple[Container, ...]) -> list[dict[str, Any]] | None:
    return [
        {"ports": one.ports or None, "resources": {"requests": _write_amounts(one.resources.requests)}}
        for one in containers
    ] or None


def _write_amounts(resources: ResourceList) -> dict[str, str] | None:
    return {name: format_canonical(quantity) for name, quantity in resources.items()} or None


# Gates.


def is_to_be_held(meta: ObjectMeta, around: Surroundings, settings: Settings) -> bool:
    """Return whether a new pod must be gated: it names a queue, or the annotation of a parent suspends it.

    Pods of a job that queues are never gated: the job queues for them. Unlike upstream, the LocalQueue `default` gets
    only pods that name it.

    Raises:
        NestingTooDeepError: the chain of the pod's owners is too long.
    """
    if POD_SUSPENDING_PARENT in meta.annotations:
        return True
    if not (meta.labels.get(QUEUE_NAME_LABEL) or settings.without_queue):
        return False
    if not settings.selects.matches(around.namespace_labels(meta.namespace)):
        return False
    return managed_ancestor(meta, around.owner, without_queue=settings.without_queue) is None


def complete(document: dict[str, Any], pod: Pod, namespace: str, around: Surroundings, settings: Settings) -> None:
    """Gate a new pod, given as `document` in JSON form, if it must wait.

    Raises:
        NestingTooDeepError: the chain of the pod's owners is too long.
    """
    meta = msgspec.structs.replace(pod.metadata, namespace=namespace)
    with suppress(QuantityError):  # the validation reports the invalid quantity
        if is_to_be_held(meta, around, settings):
            hold(document, places=settings.places)


def hold(document: dict[str, Any], *, places: bool) -> None:
    """Gate a new pod until it is admitted, and annotate its role hash.

    A pod without a suspending parent also gets Kueue's label and finalizer.

    places: whether to add the gate of topology-aware scheduling, too; Kueue's manager starts only pods with this gate.

    Raises:
        QuantityError: a request of the pod is invalid.
    """
    meta, spec = document["metadata"], document["spec"]
    annotations = _get_mapping(meta, "annotations")
    if POD_SUSPENDING_PARENT not in annotations:
        _get_mapping(meta, "labels")[MANAGED_LABEL] = "true"
        _add(_list(meta, "finalizers"), MANAGED_FINALIZER)
    for gate in (ADMISSION_GATE, TOPOLOGY_GATE) if places else (ADMISSION_GATE,):
        _add(_list(spec, "schedulingGates"), {"name": gate})
    annotations.setdefault(ROLE_HASH, role_hash(msgspec.convert(spec, PodSpec)))


def _get_mapping(part: dict[str, Any], field: str) -> dict[str, Any]:
    part[field] = mapping = part.get(field) or {}
    return mapping


def _list(part: dict[str, Any], field: str) -> list[Any]:
    part[field] = members = part.get(field) or []
    return members


def _add(members: list[Any], item: Any) -> None:
    if item not in members:
        members.append(item)


# Rules.


def validate_create(pod: Pod) -> list[FieldError]:
    """Return the errors in a new pod's labels and annotations that control queueing."""
    return list(_validate_rules(pod.metadata, None))


def validate_update(new: Pod, old: Pod, around: Surroundings) -> list[FieldError]:
    """Return the errors in an update of a pod's labels and annotations that control queueing."""
    stopped, was_stopped = (is_held(pod) or is_finished(pod) for pod in (new, old))
    common = find_forbidden_changes(new.metadata, old.metadata, around, suspended=stopped, was_suspended=was_stopped)
    return list(
        chain(_validate_rules(new.metadata, old.metadata), common, _validate_group_change(new.metadata, old.metadata))
    )


def _validate_rules(meta: ObjectMeta, old: ObjectMeta | None) -> Errors:
    of_topology = validate_annotations("metadata.annotations", meta.annotations)
    return chain(
        validate_queueing_metadata(meta, old),
        _validate_managed_label(meta),
        _validate_group(meta),
        _validate_prebuilt(meta),
        of_topology,
    )


def _validate_group_change(new: ObjectMeta, old: ObjectMeta) -> Errors:
    if group_name(old):
        yield from validate_immutable(_find_group_name_path(new), group_name(new), group_name(old))
    if group_name(new) and is_unretriable(old) and not is_unretriable(new):
        yield forbidden(annotation_path(RETRIABLE_IN_GROUP), "unretriable pod group can't be converted to retriable")


def _validate_managed_label(meta: ObjectMeta) -> Errors:
    if meta.labels.get(MANAGED_LABEL, "true") != "true":
        yield forbidden(_describe_label(MANAGED_LABEL), "managed label value can only be 'true'")


def _validate_group(meta: ObjectMeta) -> Errors:
    """Check that a group has a name and a size, or neither."""
    name, size = group_name(meta), meta.annotations.get(POD_GROUP_TOTAL_COUNT)
    where = "annotation" if meta.annotations.get(POD_GROUP_NAME_LABEL) else "label"
    both = f"both the '{POD_GROUP_TOTAL_COUNT}' annotation and the '{POD_GROUP_NAME_LABEL}' {where} should be set"
    if name:
        yield from make_errors(_find_group_name_path(meta), name, names.dns_subdomain(name))
        if size is None:
            yield required(annotation_path(POD_GROUP_TOTAL_COUNT), both)
    elif size is not None:
        yield required(_find_group_name_path(meta), both)
        return
    if size is not None and (complaint := _explain_wrong_size(size)):
        yield invalid(annotation_path(POD_GROUP_TOTAL_COUNT), size, complaint)


def _explain_wrong_size(text: str) -> str:
    if not _INTEGER.fullmatch(text):
        return f'strconv.Atoi: parsing "{text[:100]}": invalid syntax'
    if int(text) < 1:
        pair = f"{POD_GROUP_TOTAL_COUNT}={text}"
        return f"incorrect annotation value '{pair}': group total count should be greater than zero"
    return ""


def _validate_prebuilt(meta: ObjectMeta) -> Errors:
    group, name = group_name(meta), prebuilt_name(meta)
    if group and name and name != group:
        label = PREBUILT_WORKLOAD_NAME_LABEL
        path = annotation_path(label) if meta.annotations.get(label) else _describe_label(label)
        yield invalid(path, name, "prebuilt workload and pod group should be equal")


def _find_group_name_path(meta: ObjectMeta) -> str:
    name = POD_GROUP_NAME_LABEL
    return annotation_path(name) if meta.annotations.get(name) else _describe_label(name)


def _describe_label(name: str) -> str:
    return f"metadata.labels[{name}]"
