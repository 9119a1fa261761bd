"""Decide the state of a workload's checks from its ProvisioningRequests, and which requests to create and delete.

`decide` takes a workload, the configuration of each of its checks, and its requests. It returns states of checks and
objects. It is pure: `reconciler` reads and writes. The rules and messages are Kueue's (KEP-1136).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import find, find_true, is_true
from muster.api.core import Container, PodSpec, PodTemplate, PodTemplateSpec
from muster.api.groups.provisioning import (
    ACCEPTED,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CLASS_NAME_ANNOTATION,
    CONSUME_ANNOTATION,
    FAILED,
    PROVISIONED,
    PodTemplateReference,
    ProvisionedPodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
)
from muster.api.kueue import (
    CHECK_PENDING,
    CHECK_READY,
    CHECK_REJECTED,
    CHECK_RETRY,
    WORKLOAD,
    AdmissionCheckState,
    PodSet,
    PodSetAssignment,
    PodSetUpdate,
    ProvisioningRequestConfigSpec,
    Workload,
)
from muster.api.kueue.names import (
    ADMITTED,
    EVICTED,
    FINISHED,
    MANAGED_LABEL,
    PROVISIONING_REQUEST_PREFIX,
    QUOTA_RESERVED,
)
from muster.api.meta import ObjectMeta
from muster.controllers.integrations.injection import (
    FlavorOf,
    InjectionError,
    check_conflicts,
    info_of_flavors,
    merge_tolerations,
)
from muster.controllers.provisioning.names import name_request, name_template, parse_attempt
from muster.queueing.conditions import MAX_MESSAGE
from muster.queueing.workload.checks import States

INACTIVE: Final = "the check is not active"
NOT_NEEDED: Final = "the provisioning request is not needed"

_IDENTICAL_TEMPLATES: Final = "IdenticalPodTemplates"
# From this exponent on, every wait has the maximum length.
_MAX_DOUBLINGS: Final = 31

Configs = Mapping[str, ProvisioningRequestConfigSpec | None]
"""By the name of a check of ours; None where the check has no usable configuration."""


class RequestAttempt(Struct, frozen=True):
    """A request to create for a check, and its templates, which must exist before it."""

    check: str
    request: ProvisioningRequest
    templates: tuple[PodTemplate, ...]


class ProvisioningPlan(Struct, frozen=True):
    """The writes that a workload needs, in this order.

    checks: the states of all its checks.
    delete: requests that are no longer needed.
    kept: the current requests, which stay.
    create: requests to create. If an older request still has the name of a new one, creation waits for its deletion.
    """

    checks: States
    delete: tuple[ProvisioningRequest, ...] = ()
    kept: tuple[ProvisioningRequest, ...] = ()
    create: tuple[RequestAttempt, ...] = ()


class _Need(Struct, frozen=True):
    """The podsets that one request covers.

    podset: the first podset, whose template is used for all.
    count: the number of pods of all podsets.
    """

    podset: PodSet
    assignment: PodSetAssignment
    count: int


def decide(
    workload: Workload,
    configs: Configs,
    requests: Iterable[ProvisioningRequest],
    flavor_of: FlavorOf,
    now: datetime,
    *,
    cleanup: bool = True,
) -> ProvisioningPlan:
    """Return what to write for a workload with checks by ProvisioningRequest.

    Raises `ApiError` (404) for an unknown flavor.

    requests: all ProvisioningRequests that the workload owns.
    cleanup: whether an eviction deletes the requests (gate CleanupProvisioningRequestsOnEviction).
    """
    conditions, states = workload.status.conditions, workload.status.admission_checks
    everything = tuple(requests)
    owned = tuple(one for one in everything if one.metadata.deletion_timestamp is None)
    evicted = is_true(conditions, EVICTED)
    if is_true(conditions, FINISHED) or (evicted and cleanup):
        return ProvisioningPlan(states, delete=owned)
    if evicted or not is_true(conditions, QUOTA_RESERVED) or workload.status.admission is None:
        return ProvisioningPlan(states)
    current = {name: _find_current(workload, name, config, owned) for name, config in configs.items()}
    checks, create = [], []
    for state in states:
        if state.name in configs:
            config, request = configs[state.name], current[state.name]
            state = _judge(state, workload, config, request, now)
            if config is not None and (attempt := _choose_next_attempt(state, workload, config, request)) is not None:
                try:
                    create.append(_create_attempt(state.name, attempt, workload, config, flavor_of))
                except InjectionError as error:
                    state = set_state(state, CHECK_PENDING, f"Error creating ProvisioningRequest: {error}", now)
        checks.append(state)
    kept = tuple(one for one in current.values() if one is not None)
    names = {one.metadata.name for one in kept}
    used_names = {one.metadata.name for one in everything}
    return ProvisioningPlan(
        tuple(checks),
        delete=tuple(one for one in owned if one.metadata.name not in names),
        kept=kept,
        create=tuple(one for one in create if one.request.metadata.name not in used_names),
    )


# Finding the current request.


def _find_current(
    workload: Workload,
    check: str,
    config: ProvisioningRequestConfigSpec | None,
    owned: Sequence[ProvisioningRequest],
) -> ProvisioningRequest | None:
    """Return the newest request for a check that matches the configuration.

    Return None if there is no such request, or if no podset needs one.
    """
    if config is None or not _list_needs(workload, config):
        return None
    attempts = {
        attempt: one
        for one in owned
        if _follows(one, workload, config) and (attempt := _attempt(one, workload, check)) is not None
    }
    return attempts[max(attempts)] if attempts else None


def _attempt(request: ProvisioningRequest, workload: Workload, check: str) -> int | None:
    return parse_attempt(request.metadata.name, workload.metadata.name, check)


def _follows(request: ProvisioningRequest, workload: Workload, config: ProvisioningRequestConfigSpec) -> bool:
    """Return whether a request has the class and the parameters of the configuration.

    Parameters that annotations of the workload override may differ.
    """
    spec, passed = request.spec, _list_passed_parameters(workload)
    parameters = {key: value for key, value in config.parameters.items() if key not in passed}
    return (
        spec.provisioning_class_name == config.provisioning_class_name and parameters.items() <= spec.parameters.items()
    )


def _list_passed_parameters(workload: Workload) -> dict[str, str]:
    """Return the parameters in annotations of the workload, which override the parameters of the configuration."""
    prefix = PROVISIONING_REQUEST_PREFIX
    annotations = workload.metadata.annotations.items()
    return {key.removeprefix(prefix): value for key, value in annotations if key.startswith(prefix)}


# Judging the current request.


def _judge(
    state: AdmissionCheckState,
    workload: Workload,
    config: ProvisioningRequestConfigSpec | None,
    request: ProvisioningRequest | None,
    now: datetime,
) -> AdmissionCheckState:
    """Return the new state of a check, from the conditions of its ProvisioningRequest.

    config: None if the configuration of the check does not exist.
    request: None if it does not exist yet.
    """
    if config is None:
        return set_state(state, CHECK_PENDING, INACTIVE, now)
    if not _list_needs(workload, config):
        if state.state == CHECK_READY:
            return state
        return replace(set_state(state, CHECK_READY, NOT_NEEDED, now), pod_set_updates=())
    if request is None:
        return state
    conditions = request.status.conditions
    if (failed := find_true(conditions, FAILED)) is not None:
        return _judge_failure(state, workload, config, request, "failure", failed.message, now)
    if (revoked := find_true(conditions, CAPACITY_REVOKED)) is not None:
        # The nodes will not return: replacements of their pods would wait forever.
        return set_state(state, CHECK_REJECTED, revoked.message, now) if workload.spec.active else state
    if (expired := find_true(conditions, BOOKING_EXPIRED)) is not None:
        if is_true(workload.status.conditions, ADMITTED):
            return state  # the workload is admitted, and its pods use the nodes
        return _judge_failure(state, workload, config, request, "booking expired", expired.message, now)
    provisioned = find(conditions, PROVISIONED)
    if provisioned is not None and provisioned.status == "True":
        if state.state == CHECK_READY:
            return state
        updates = _list_updates(workload, config, request)
        return replace(set_state(state, CHECK_READY, provisioned.message, now), pod_set_updates=updates)
    if is_true(conditions, ACCEPTED):
        # The message says when the nodes are expected.
        return set_state(state, CHECK_PENDING, provisioned.message, now) if provisioned is not None else state
    return set_state(state, CHECK_PENDING, "", now)


def _judge_failure(
    state: AdmissionCheckState,
    workload: Workload,
    config: ProvisioningRequestConfigSpec,
    request: ProvisioningRequest,
    failure: str,
    reason: str,
    now: datetime,
) -> AdmissionCheckState:
    """Return the state of a check after its request failed: Retry, or Rejected after the last attempt.

    failure: the kind of failure, for the message.
    reason: the reason for the failure.
    """
    attempt, strategy = _attempt(request, workload, state.name) or 1, config.retry_strategy
    if attempt > strategy.backoff_limit_count:
        return set_state(state, CHECK_REJECTED, reason, now)
    message, retries = f"Retrying after {failure}: {reason}", state.retry_count or 0
    if attempt <= retries:
        return set_state(state, state.state, message, now)  # an eviction has counted this failure
    doubled = strategy.backoff_base_seconds * 2 ** min(retries, _MAX_DOUBLINGS)
    wait = min(doubled, strategy.backoff_max_seconds)
    return replace(set_state(state, CHECK_RETRY, message, now), requeue_after_seconds=max(wait, 0))


def set_state(state: AdmissionCheckState, value: str, message: str, now: datetime) -> AdmissionCheckState:
    """Return the state of a check with this state and message. The transition time changes only with the state."""
    moment = state.last_transition_time if state.state == value else now.replace(microsecond=0)
    return replace(state, state=value, message=message[:MAX_MESSAGE], last_transition_time=moment)


def _list_updates(
    workload: Workload, config: ProvisioningRequestConfigSpec, request: ProvisioningRequest
) -> tuple[PodSetUpdate, ...]:
    """Return the updates that place the pods of each podset on the new nodes, one for each podset."""
    details, updates = request.status.provisioning_class_details, config.pod_set_updates
    keys = updates.node_selector if updates is not None else ()
    selector = {
        one.key: details[one.value_from_provisioning_class_detail]
        for one in keys
        if one.value_from_provisioning_class_detail in details
    }
    annotations = {
        CONSUME_ANNOTATION: request.metadata.name,
        CLASS_NAME_ANNOTATION: request.spec.provisioning_class_name,
    }
    return tuple(
        PodSetUpdate(name=need.podset.name, annotations=annotations, node_selector=selector)
        for need in _list_needs(workload, config)
    )


# The next request.


def _choose_next_attempt(
    state: AdmissionCheckState,
    workload: Workload,
    config: ProvisioningRequestConfigSpec,
    request: ProvisioningRequest | None,
) -> int | None:
    """Return the number of the attempt to start; None if there is nothing to request now.

    A check in state Retry or Rejected first waits for the eviction of the workload.
    """
    if state.state != CHECK_PENDING or not _list_needs(workload, config):
        return None
    if request is None:
        return (state.retry_count or 0) + 1
    conditions = request.status.conditions
    expired = is_true(conditions, BOOKING_EXPIRED) and not is_true(workload.status.conditions, ADMITTED)
    if is_true(conditions, FAILED) or expired:
        return (_attempt(request, workload, state.name) or 1) + 1
    return None


def _list_needs(workload: Workload, config: ProvisioningRequestConfigSpec) -> tuple[_Need, ...]:
    """Return the podsets that have pods and use a managed resource."""
    admission, managed = workload.status.admission, frozenset(config.managed_resources)
    assignments = {one.name: one for one in admission.pod_set_assignments} if admission is not None else {}
    needs = []
    for podset in workload.spec.pod_sets:
        assignment = assignments.get(podset.name)
        if assignment is None or (managed and not _uses(podset.template.spec, managed)):
            continue
        count = podset.count if assignment.count is None else assignment.count
        if podset.count > 0 and count > 0:
            needs.append(_Need(podset, assignment, count))
    return tuple(needs)


def _uses(pod: PodSpec, resources: frozenset[str]) -> bool:
    containers = (*pod.init_containers, *pod.containers)
    return any(resources & {*one.resources.requests, *one.resources.limits} for one in containers)


def _merge(needs: Iterable[_Need], policy: str | None) -> list[_Need]:
    merged: list[_Need] = []
    for need in needs:
        same = policy and next((i for i, one in enumerate(merged) if _are_alike(one, need, policy)), None)
        if isinstance(same, int):
            merged[same] = replace(merged[same], count=merged[same].count + need.count)
        else:
            merged.append(need)
    return merged


def _are_alike(one: _Need, other: _Need, policy: str) -> bool:
    """Return whether two podsets share one request.

    Their templates are equal, or equal in all fields that select nodes, depending on the policy.
    """
    a, b = one.podset.template, other.podset.template
    return a == b if policy == _IDENTICAL_TEMPLATES else _read_scheduling(a.spec) == _read_scheduling(b.spec)


def _read_scheduling(pod: PodSpec) -> tuple[object, ...]:
    requests = [[one.resources.requests for one in group] for group in (pod.containers, pod.init_containers)]
    return requests, pod.resources, pod.node_selector, pod.tolerations, pod.affinity, pod.resource_claims


def _create_attempt(
    check: str, attempt: int, workload: Workload, config: ProvisioningRequestConfigSpec, flavor_of: FlavorOf
) -> RequestAttempt:
    """Return the request of an attempt. Raises `InjectionError` if a podset contradicts its flavors."""
    name = name_request(workload.metadata.name, check, attempt)
    needs = _merge(_list_needs(workload, config), config.pod_set_merge_policy)
    templates = tuple(
        PodTemplate(
            metadata=_make_metadata(name_template(name, need.podset.name), workload),
            template=_create_template(need, flavor_of),
        )
        for need in needs
    )
    spec = ProvisioningRequestSpec(
        provisioning_class_name=config.provisioning_class_name,
        pod_sets=tuple(
            ProvisionedPodSet(pod_template_ref=PodTemplateReference(name=template.metadata.name), count=need.count)
            for template, need in zip(templates, needs, strict=True)
        ),
        parameters=config.parameters | _list_passed_parameters(workload),
    )
    return RequestAttempt(check, ProvisioningRequest(metadata=_make_metadata(name, workload), spec=spec), templates)


def _make_metadata(name: str, workload: Workload) -> ObjectMeta:
    """Return the metadata of a request or a template.

    The workload owns a template until the request exists and owns it.
    """
    meta = workload.metadata
    owner = WORKLOAD.refer_to_controller(meta)
    return ObjectMeta(name=name, namespace=meta.namespace, labels={MANAGED_LABEL: "true"}, owner_references=(owner,))


def _create_template(need: _Need, flavor_of: FlavorOf) -> PodTemplateSpec:
    """Return the pods of a podset as they will be on the nodes of its flavors. Limits replace missing requests."""
    template = need.podset.template
    info = replace(info_of_flavors(need.assignment, {}, flavor_of), labels={})
    check_conflicts(info, template)
    spec = template.spec
    return replace(
        template,
        spec=replace(
            spec,
            node_selector={**spec.node_selector, **info.node_selector},
            tolerations=merge_tolerations(spec.tolerations, info.tolerations),
            init_containers=tuple(map(_add_limits_to_requests, spec.init_containers)),
            containers=tuple(map(_add_limits_to_requests, spec.containers)),
        ),
    )


def _add_limits_to_requests(container: Container) -> Container:
    resources = container.resources
    return replace(container, resources=replace(resources, requests=resources.limits | resources.requests))
