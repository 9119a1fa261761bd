"""Compute how much of a ResourceQuota one object uses, and which quotas cover the object. Pure.

The rules follow k8s.io/kubernetes (pkg/quota/v1/evaluator):

- A pod counts until it has finished, except for `count/pods`, which counts stored pods.
- Scopes describe pods and volume claims, so a quota with scopes counts no other objects.

scheduler KEP-34 (kube-batch) adds that a PodGroup reserves its `totalResources`, which its pods then use first. Amounts
are integers in the units of `quantity.parse_amount`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from muster.api.core import POD, SERVICE, Container, Pod, PodSpec, ResourceRequirements, Service
from muster.api.core.quota import ResourceQuotaSpec, ScopedResourceSelectorRequirement
from muster.api.meta import Struct
from muster.api.podgroups.kep import POD_GROUP, PodGroup
from muster.api.pods import is_finished, pod_requests, qos_class
from muster.api.values.quantity import Quantity, ResourceList, format_amount, parse
from muster.jobs.podgroup.record import read
from muster.jobs.podgroup.reference import By, reference_of

CLAIMS = "persistentvolumeclaims"
COUNT = "count/"
_COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage"})
_REQUESTS, _LIMITS, _HUGE_PAGES = "requests.", "limits.", "hugepages-"
_OF_CLASS = ".storageclass.storage.k8s.io/"
# Resources that a quota may also count by their plain names.
_COUNTED = frozenset({"configmaps", CLAIMS, "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"})
# If a quota limits one of these, every container must state its amount.
_EXPLICIT = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})

Amounts = dict[str, int]


class _ClaimSpec(Struct):
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    resources: ResourceRequirements = ResourceRequirements()


class _Claim(Struct):
    spec: _ClaimSpec = _ClaimSpec()


class Measure(msgspec.Struct, frozen=True):
    """The part of a ResourceQuota that one object uses, and the scopes that the object belongs to.

    classes: the object's values for scope selectors with values, by scope.
    group: the PodGroup of a pod, or the name of a PodGroup itself.
    reserves: how much a PodGroup reserves for its pods; None for other objects.
    """

    usage: Mapping[str, int]
    scopes: frozenset[str] = frozenset()
    classes: tuple[tuple[str, str], ...] = ()
    group: str = ""
    reserves: Mapping[str, int] | None = None


def measure_document(resource: str, document: Mapping[str, Any]) -> Measure:
    """Return how much of a ResourceQuota an object would use. resource: the resource's key in the store."""
    rule = _RULES.get(resource)
    if rule is None:
        return _make_count_measure(resource)
    type_, measure = rule
    return measure(msgspec.convert(document, type_))


def measure_body(resource: str, body: bytes) -> Measure:
    """Return how much of a ResourceQuota a stored object uses. body: the object in its stored form."""
    rule = _RULES.get(resource)
    if rule is None:
        return _make_count_measure(resource)
    type_, measure = rule
    return measure(msgspec.json.decode(body, type=type_))


def _make_count_measure(resource: str) -> Measure:
    usage = {COUNT + resource: 1}
    return Measure(usage | {resource: 1} if resource in _COUNTED else usage)


def _measure_pod(pod: Pod) -> Measure:
    usage: Amounts = {COUNT + POD.resource: 1}
    spec = pod.spec
    if not is_finished(pod):
        usage["pods"] = 1
        for resource, number in pod_requests(spec).items():
            if resource in _COMPUTE or resource.startswith(_HUGE_PAGES):
                usage[resource] = number
            usage[_REQUESTS + resource] = number
        for resource, number in pod_limits(spec).items():
            if resource in _COMPUTE:
                usage[_LIMITS + resource] = number
    scopes = {
        "NotTerminating" if spec.active_deadline_seconds is None else "Terminating",
        "BestEffort" if qos_class(spec) == "BestEffort" else "NotBestEffort",
    }
    if spec.priority_class_name:
        scopes.add("PriorityClass")
    if _reaches_other_namespaces(spec):
        scopes.add("CrossNamespacePodAffinity")
    named = reference_of(pod)
    group = named.name if named is not None and named.by is By.ANNOTATION and not named.problem else ""
    return Measure(usage, frozenset(scopes), (("PriorityClass", spec.priority_class_name),), group)


def _measure_pod_group(group: PodGroup) -> Measure:
    total, over = group.spec.total_resources, group.status.completion_time is not None
    reserves = _measure_reservation(total, read(group).min_members) if total and not over else {}
    return Measure({COUNT + POD_GROUP.resource: 1}, group=group.metadata.name, reserves=reserves)


def _measure_reservation(total: ResourceList, pods: int) -> Amounts:
    """Return how much a PodGroup with these total resources reserves.

    pods: the number of its pods, unless `total` contains it.
    """
    reserved: Amounts = {"pods": pods, COUNT + POD.resource: pods}
    for name, quantity in total.items():
        number, resource = _round_up(name, quantity), name.removeprefix(_REQUESTS)
        if name.startswith(_LIMITS):
            reserved[name] = number
        elif name in ("pods", COUNT + POD.resource):
            reserved |= {"pods": number, COUNT + POD.resource: number}
        else:
            reserved[_REQUESTS + resource] = number
            if resource in _COMPUTE or resource.startswith(_HUGE_PAGES):
                reserved[resource] = number
    return reserved


def pod_limits(spec: PodSpec) -> Amounts:
    """Return the limits of a pod; its overhead counts for the resources that have a limit."""
    overhead = spec.overhead
    limited = msgspec.structs.replace(
        spec,
        containers=tuple([_copy_limits_to_requests(container) for container in spec.containers]),
        init_containers=tuple([_copy_limits_to_requests(container) for container in spec.init_containers]),
        resources=ResourceRequirements(requests=spec.resources.limits) if spec.resources is not None else None,
        overhead={},
    )
    amounts = pod_requests(limited)
    limited_overhead = {resource: quantity for resource, quantity in overhead.items() if resource in amounts}
    return pod_requests(msgspec.structs.replace(limited, overhead=limited_overhead)) if limited_overhead else amounts


def _copy_limits_to_requests(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=ResourceRequirements(requests=container.resources.limits))


def _reaches_other_namespaces(spec: PodSpec) -> bool:
    if spec.affinity is None:
        return False
    for company in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if company is not None:
            required = company.required_during_scheduling_ignored_during_execution
            wished = [w.pod_affinity_term for w in company.preferred_during_scheduling_ignored_during_execution]
            if any(term.namespaces or term.namespace_selector is not None for term in (*required, *wished)):
                return True
    return False


def _measure_service(service: Service) -> Measure:
    ports, spec = len(service.spec.ports), service.spec
    usage = {COUNT + SERVICE.resource: 1, "services": 1}
    if spec.type == "LoadBalancer":
        usage["services.loadbalancers"] = 1
    if spec.type == "NodePort" or (spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is not False):
        usage["services.nodeports"] = ports
    return Measure(usage)


def _measure_claim(claim: _Claim) -> Measure:
    usage = {COUNT + CLAIMS: 1, CLAIMS: 1}
    size = claim.spec.resources.requests.get("storage")
    if size is not None:
        usage["requests.storage"] = math.ceil(parse(size))
    if claim.spec.storage_class_name:
        prefix = claim.spec.storage_class_name + _OF_CLASS
        usage |= {prefix + name: usage[name] for name in (CLAIMS, "requests.storage") if name in usage}
    attributes = claim.spec.volume_attributes_class_name or ""
    scopes = frozenset({"VolumeAttributesClass"}) if attributes else frozenset[str]()
    return Measure(usage, scopes, (("VolumeAttributesClass", attributes),))


_RULES: Mapping[str, tuple[Any, Callable[[Any], Measure]]] = {
    POD.resource: (Pod, _measure_pod),
    POD_GROUP.resource: (PodGroup, _measure_pod_group),
    SERVICE.resource: (Service, _measure_service),
    CLAIMS: (_Claim, _measure_claim),
}


class Scope(msgspec.Struct, frozen=True):
    """The scopes and scope selector of a ResourceQuota, which decide whether the quota counts an object."""

    scopes: tuple[str, ...] = ()
    expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()

    @classmethod
    def of(cls, spec: ResourceQuotaSpec) -> "Scope":
        """Return the scope of a quota."""
        selector = spec.scope_selector
        return cls(spec.scopes, selector.match_expressions if selector is not None else ())

    def covers(self, measure: Measure) -> bool:
        """Return whether a quota with this scope counts an object."""
        classes = dict(measure.classes)
        return all(scope in measure.scopes for scope in self.scopes) and all(
            _meets(expression, measure, classes.get(expression.scope_name)) for expression in self.expressions
        )


def _meets(expression: ScopedResourceSelectorRequirement, measure: Measure, value: str | None) -> bool:
    described = expression.scope_name in measure.scopes
    if value is None or expression.operator == "Exists":  # None: objects of this kind have no such value
        return described and expression.operator == "Exists"
    if expression.operator == "DoesNotExist":
        return not described
    if expression.operator == "In":
        return described and value in expression.values
    return value not in expression.values


def resource_of(name: str) -> str:
    """Return the key in the store of the resource that a name in a quota limits: `pods` for `requests.cpu`."""
    if name.startswith(COUNT):
        return name.removeprefix(COUNT)
    if name in ("requests.storage", CLAIMS) or _OF_CLASS in name:
        return CLAIMS
    if name in _COUNTED:
        return name
    return SERVICE.resource if name.startswith("services.") else POD.resource


def list_resources_counted_with(resource: str) -> tuple[str, ...]:
    """Return the resources whose objects change the usage of this resource.

    For pods, the result includes PodGroups, because they reserve resources for their pods.
    """
    return (POD.resource, POD_GROUP.resource) if resource == POD.resource else (resource,)


def counts_for(resource: str) -> tuple[str, ...]:
    """Return the resources to whose usage an object of this resource contributes."""
    return tuple({resource: None} | {one: None for one in _RULES if resource in list_resources_counted_with(one)})


def resources_of(spec: ResourceQuotaSpec) -> frozenset[str]:
    """Return the resources whose objects count in a quota."""
    return frozenset(one for name in spec.hard for one in list_resources_counted_with(resource_of(name)))


def hard_amounts(spec: ResourceQuotaSpec) -> Amounts:
    """Return the limits of a quota, rounded down to whole units."""
    return {name: _round_down(name, quantity) for name, quantity in spec.hard.items()}


def _round_down(name: str, quantity: Quantity) -> int:
    return math.floor(parse(quantity) * (1000 if _get_base_resource(name) == "cpu" else 1))


def _round_up(name: str, quantity: Quantity) -> int:
    return max(0, math.ceil(parse(quantity) * (1000 if _get_base_resource(name) == "cpu" else 1)))


def _get_base_resource(name: str) -> str:
    """Return the resource in a quota's name, which decides about the unit: `cpu` for `requests.cpu`."""
    if _OF_CLASS in name:
        name = name.partition("/")[2]
    return name.removeprefix(_REQUESTS).removeprefix(_LIMITS)


def render_amounts(amounts: Mapping[str, int]) -> str:
    """Return amounts as text for refusals: `pods=1,requests.cpu=500m`."""
    return ",".join(f"{name}={format_amount(_get_base_resource(name), amounts[name])}" for name in sorted(amounts))


def to_quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Kubernetes quantities, by the names that a quota uses."""
    return {name: format_amount(_get_base_resource(name), amounts[name]) for name in sorted(amounts)}


def list_unstated(document: Mapping[str, Any], limited: Iterable[str]) -> str:
    """Return, as text, the amounts that a quota limits and containers do not state; "" if they state all.

    An example is `limits.cpu for: a,b; requests.memory for: a`.

    limited: the names of the limited amounts.
    """
    required = _EXPLICIT.intersection(limited)
    if not required:
        return ""
    spec = document["spec"]
    required -= _list_stated_amounts(spec.get("resources", {}))
    missing: dict[str, list[str]] = {}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        for resource in required - _list_stated_amounts(container.get("resources", {})):
            missing.setdefault(resource, []).append(container["name"])
    return "; ".join(f"{resource} for: {','.join(sorted(missing[resource]))}" for resource in sorted(missing))


def _list_stated_amounts(resources: Mapping[str, Any]) -> set[str]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    return {*requests, *(_REQUESTS + name for name in requests), *(_LIMITS + name for name in limits)}
