"""The rules of new pods and of changes of pods."""

from itertools import starmap

import msgspec

from muster.api.core import (
    Affinity,
    Binding,
    Container,
    ContainerStatus,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodStatus,
    Toleration,
)
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.addresses import validate_address_families, validate_ip_address
from muster.api.validation.fields import (
    Errors,
    forbidden,
    invalid,
    make_errors,
    required,
    unsupported,
    validate_immutable,
    validate_not_negative,
)
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.pods.containers import validate_pod_only_fields
from muster.api.validation.pods.placement import validate_tolerations
from muster.api.validation.pods.podspec import MAX_INT32, validate_pod_annotations, validate_pod_spec

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})


def validate_create(pod: Pod) -> list[FieldError]:
    """Return the errors in a new pod with its defaults."""
    return list(_validate_create(pod))


def validate_update(new: Pod, old: Pod) -> list[FieldError]:
    """Return the errors in a change of a pod. Its metadata and few other fields may change."""
    return list(_validate_update(new, old))


def validate_status_update(new: Pod, old: Pod) -> list[FieldError]:
    """Return the errors in a change of a pod's status, by its node or the scheduler."""
    return list(_validate_status_update(new, old))


def validate_binding(binding: Binding) -> list[FieldError]:
    """Return the errors in a `pods/binding`."""
    return list(_validate_binding(binding))


def _validate_create(pod: Pod) -> Errors:
    yield from new_metadata(pod.metadata, names.dns_subdomain)
    yield from _validate_spec(pod)
    if pod.spec.ephemeral_containers:
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if pod.spec.node_name and pod.spec.scheduling_gates:
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _validate_spec(pod: Pod) -> Errors:
    yield from validate_pod_annotations("metadata.annotations", pod.metadata.annotations)
    yield from validate_pod_spec("spec", pod.spec, pod.metadata.name, is_pod=True)
    if not pod.spec.service_account_name:
        for i, volume in enumerate(pod.spec.volumes):
            for j, source in enumerate(volume.projected.sources if volume.projected is not None else ()):
                if source.service_account_token is not None:
                    place = f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"
                    yield forbidden(place, "must not be specified when serviceAccountName is not set")
    for i, container in enumerate(pod.spec.containers):
        yield from validate_pod_only_fields(f"spec.containers[{i}]", container)
    for i, container in enumerate(pod.spec.init_containers):
        yield from validate_pod_only_fields(f"spec.initContainers[{i}]", container)


def _validate_binding(binding: Binding) -> Errors:
    if binding.target.kind not in ("", "Node"):
        yield unsupported("target.kind", binding.target.kind, ("Node", "<empty>"))
    if not binding.target.name:
        yield required("target.name")


def _validate_update(new: Pod, old: Pod) -> Errors:
    yield from changed_metadata(new.metadata, old.metadata)
    yield from _validate_spec(new)
    for field, now, before in (
        ("containers", new.spec.containers, old.spec.containers),
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
    ):
        if len(now) != len(before):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    deadline_errors = list(_validate_deadline(new.spec.active_deadline_seconds, old.spec.active_deadline_seconds))
    yield from deadline_errors
    if deadline_errors and new.spec.active_deadline_seconds is not None:
        return
    yield from _validate_only_added_tolerations(new.spec.tolerations, old.spec.tolerations)
    yield from _validate_only_removed_gates(new.spec, old.spec)
    if new.spec == old.spec:
        return
    rest = _restore_updatable_fields(new.spec, old.spec)
    if old.spec.scheduling_gates:
        yield from _validate_gated_node_selector(new.spec, old.spec)
        yield from _validate_gated_affinity(new.spec.affinity, old.spec.affinity)
        rest = msgspec.structs.replace(
            rest,
            node_selector=old.spec.node_selector,
            affinity=_restore_node_affinity(rest.affinity, old.spec.affinity),
        )
    if rest != old.spec:
        changed = ", ".join(_list_changed_fields(rest, old.spec))
        yield forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\nchanged: {changed}")


def _validate_deadline(new: int | None, old: int | None) -> Errors:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= MAX_INT32:
        yield from make_errors(path, new, names.in_range(new, 0, MAX_INT32))
    elif old is not None and old < new:
        yield invalid(path, new, "must be less than or equal to previous value")


def _validate_only_added_tolerations(new: tuple[Toleration, ...], old: tuple[Toleration, ...]) -> Errors:
    kept = {msgspec.structs.replace(toleration, toleration_seconds=None) for toleration in new}
    for toleration in old:
        if msgspec.structs.replace(toleration, toleration_seconds=None) not in kept:
            sentence = "existing toleration can not be modified except its tolerationSeconds"
            yield forbidden("spec.tolerations", sentence)
            return
    yield from validate_tolerations("spec.tolerations", new)


def _validate_only_removed_gates(new: PodSpec, old: PodSpec) -> Errors:
    before = {gate.name for gate in old.scheduling_gates}
    for i, gate in enumerate(new.scheduling_gates):
        if gate.name not in before:
            sentence = f"only deletion is allowed, but found new scheduling gate '{gate.name}'"
            yield forbidden(f"spec.schedulingGates[{i}].name", sentence)


def _restore_updatable_fields(new: PodSpec, old: PodSpec) -> PodSpec:
    """Return the new spec with the old values of the changeable fields."""
    grace = new.termination_grace_period_seconds
    if (old.termination_grace_period_seconds or 0) < 0 and grace == 1:
        grace = old.termination_grace_period_seconds
    return msgspec.structs.replace(
        new,
        containers=_replace_images(new.containers, old.containers),
        init_containers=_replace_images(new.init_containers, old.init_containers),
        active_deadline_seconds=old.active_deadline_seconds,
        scheduling_gates=old.scheduling_gates,
        tolerations=old.tolerations,
        termination_grace_period_seconds=grace,
    )


def _replace_images(containers: tuple[Container, ...], old: tuple[Container, ...]) -> tuple[Container, ...]:
    return tuple(starmap(_replace_image, zip(containers, old, strict=True)))


def _replace_image(container: Container, old: Container) -> Container:
    return msgspec.structs.replace(container, image=old.image)


def _validate_gated_node_selector(new: PodSpec, old: PodSpec) -> Errors:
    if not old.node_selector.items() <= new.node_selector.items():
        sentence = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", new.node_selector, sentence)


def _validate_gated_affinity(new: Affinity | None, old: Affinity | None) -> Errors:
    before = _list_required_terms(old)
    if not before:
        return
    now = _list_required_terms(new)
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if len(now) != len(before):
        sentence = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(path, now, sentence)
        return
    for i, (term, old_term) in enumerate(zip(now, before, strict=True)):
        if not _has_only_additions(term, old_term):
            yield invalid(f"{path}[{i}]", term, "only additions are allowed (no mutations or deletions)")


def _list_required_terms(affinity: Affinity | None) -> tuple[NodeSelectorTerm, ...]:
    node: NodeAffinity | None = affinity.node_affinity if affinity is not None else None
    selector = node.required_during_scheduling_ignored_during_execution if node is not None else None
    return selector.node_selector_terms if selector is not None else ()


def _has_only_additions(new: NodeSelectorTerm, old: NodeSelectorTerm) -> bool:
    if not (old.match_expressions or old.match_fields):
        return not (new.match_expressions or new.match_fields)  # an empty term matches no node
    return (
        new.match_expressions[: len(old.match_expressions)] == old.match_expressions
        and new.match_fields[: len(old.match_fields)] == old.match_fields
    )


def _restore_node_affinity(affinity: Affinity | None, old: Affinity | None) -> Affinity | None:
    node = old.node_affinity if old is not None else None
    if affinity is None:
        return Affinity(node_affinity=node) if node is not None else None
    replaced = msgspec.structs.replace(affinity, node_affinity=node)
    return None if old is None and replaced == Affinity() else replaced


def _list_changed_fields(new: PodSpec, old: PodSpec) -> list[str]:
    fields = zip(PodSpec.__struct_fields__, PodSpec.__struct_encode_fields__, strict=True)
    return [f"spec.{wire}" for field, wire in fields if getattr(new, field) != getattr(old, field)]


def _validate_status_update(new: Pod, old: Pod) -> Errors:
    yield from changed_metadata(new.metadata, old.metadata)
    status, before = new.status, old.status
    for i, condition in enumerate(status.conditions):
        if condition.observed_generation < 0:
            place = f"status.conditions[{i}].observedGeneration"
            yield invalid(place, condition.observed_generation, "must be a non-negative integer")
        if condition.type not in _SYSTEM_CONDITIONS:
            yield from make_errors(f"status.conditions[{i}].Type", condition.type, names.label_key(condition.type))
    if new.spec.node_name != old.spec.node_name:
        yield forbidden("status.nodeName", "may not be changed directly")
    nominated = status.nominated_node_name
    if nominated and nominated != before.nominated_node_name:
        yield from make_errors("status.nominatedNodeName", nominated, names.dns_subdomain(nominated))
    yield from validate_not_negative("status.observedGeneration", status.observed_generation)
    yield from validate_immutable("status.qosClass", status.qos_class, before.qos_class)
    yield from _validate_container_states(status, old)
    yield from _validate_addresses(status, before)


def _validate_container_states(status: PodStatus, old: Pod) -> Errors:
    for field, now, before, containers in (
        ("containerStatuses", status.container_statuses, old.status.container_statuses, old.spec.containers),
        (
            "initContainerStatuses",
            status.init_container_statuses,
            old.status.init_container_statuses,
            old.spec.init_containers,
        ),
        (
            "ephemeralContainerStatuses",
            status.ephemeral_container_statuses,
            old.status.ephemeral_container_statuses,
            (),
        ),
    ):
        by_name = {container.name: container for container in containers}
        running = {entry.name for entry in now if entry.state.terminated is None}
        for i, entry in enumerate(before):
            if entry.name in running and not _may_restart(entry, by_name.get(entry.name), old.spec):
                yield forbidden(f"status.{field}[{i}].state", "may not be transitioned to non-terminated state")


def _may_restart(status: ContainerStatus, container: Container | None, spec: PodSpec) -> bool:
    """Return whether a container with this status has not terminated, or may restart.

    container: None for an ephemeral container, which never restarts.
    """
    ended = status.state.terminated
    if ended is None:
        return True
    if container is None:
        return False
    for rule in (rule for each_one in spec.containers for rule in each_one.restart_policy_rules):
        if rule.action == "RestartAllContainers":
            return True
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if codes is not None and (ended.exit_code in codes.values) is (codes.operator == "In"):
            return True
    policy = container.restart_policy or spec.restart_policy
    return policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0)


def _validate_addresses(status: PodStatus, before: PodStatus) -> Errors:
    pod_ips = tuple(address.ip for address in status.pod_ips)
    for i, ip in enumerate(pod_ips):
        yield from validate_ip_address(f"status.podIPs[{i}]", ip, tuple(address.ip for address in before.pod_ips))
    yield from validate_address_families("status.podIPs", pod_ips)
    if not status.host_ips:
        return
    if status.host_ip != status.host_ips[0].ip:
        yield invalid("status.hostIPs[0].ip", status.host_ips[0].ip, "must be equal to `hostIP`")
    host_ips = tuple(address.ip for address in status.host_ips)
    for i, ip in enumerate(host_ips):
        yield from validate_ip_address(f"status.hostIPs[{i}]", ip, tuple(address.ip for address in before.host_ips))
    yield from validate_address_families("status.hostIPs", host_ips)
