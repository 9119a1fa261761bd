"""The defaults of kinds with few fields (k8s.io/kubernetes/pkg/apis/{flowcontrol,resource,...}/.../defaults.go)."""

from collections.abc import Iterator
from typing import Any

from muster.api.defaults.resources import default_resource_list, fill

Json = dict[str, Any]


def default_runtime_class(runtime_class: Json) -> None:
    """Set the defaults of a RuntimeClass."""
    default_resource_list(runtime_class.get("overhead", {}).get("podFixed"))


def default_api_service(api_service: Json) -> None:
    """Set the defaults of an APIService."""
    service = api_service.get("spec", {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def default_flow_schema(flow_schema: Json) -> None:
    """Set the defaults of a FlowSchema."""
    fill(flow_schema.setdefault("spec", {}), "matchingPrecedence", 1000)


def default_priority_level(level: Json) -> None:
    """Set the defaults of a PriorityLevelConfiguration."""
    spec = level.setdefault("spec", {})
    if "exempt" in spec:
        spec["exempt"].setdefault("nominalConcurrencyShares", 0)
        spec["exempt"].setdefault("lendablePercent", 0)
    limited = spec.get("limited")
    if limited is None:
        return
    limited.setdefault("nominalConcurrencyShares", 30)
    limited.setdefault("lendablePercent", 0)
    queuing = limited.get("limitResponse", {}).get("queuing")
    if queuing is not None:
        for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
            fill(queuing, field, value)


def default_resource_claim(claim: Json) -> None:
    """Set the defaults of a ResourceClaim."""
    for request in _list_device_requests(claim.get("spec", {})):
        fill(request, "allocationMode", "ExactCount")
        if request["allocationMode"] == "ExactCount":
            fill(request, "count", 1)
        for toleration in request.get("tolerations", ()):
            fill(toleration, "operator", "Equal")


def default_resource_claim_template(template: Json) -> None:
    """Set the defaults of a ResourceClaimTemplate."""
    default_resource_claim(template.get("spec", {}))


def default_pod_group(group: Json) -> None:
    """Set the defaults of a PodGroup of `scheduling.k8s.io`."""
    fill(group.setdefault("spec", {}), "disruptionMode", "Pod")


def _list_device_requests(spec: Json) -> Iterator[Json]:
    for request in spec.get("devices", {}).get("requests", ()):
        if "exactly" in request:
            yield request["exactly"]
        yield from request.get("firstAvailable", ())
