"""The defaults of network kinds (k8s.io/kubernetes/pkg/apis/{networking,discovery,core}/v1/defaults.go)."""

from typing import Any

from muster.api.defaults.resources import fill

Json = dict[str, Any]


def default_network_policy(policy: Json) -> None:
    """Set the defaults of a NetworkPolicy. A policy restricts ingress always, and egress only with rules for egress."""
    spec = policy.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def default_ingress(ingress: Json) -> None:
    """Set the defaults of an Ingress."""
    ingress.setdefault("status", {}).setdefault("loadBalancer", {})


def default_ingress_class(ingress_class: Json) -> None:
    """Set the defaults of an IngressClass."""
    parameters = ingress_class.get("spec", {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def default_endpoints(endpoints: Json) -> None:
    """Set the defaults of an Endpoints object."""
    for subset in endpoints.get("subsets", ()):
        for port in subset.get("ports", ()):
            fill(port, "protocol", "TCP")


def default_endpoint_slice(endpoint_slice: Json) -> None:
    """Set the defaults of an EndpointSlice."""
    for port in endpoint_slice.get("ports", ()):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")
