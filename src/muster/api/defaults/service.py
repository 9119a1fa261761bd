"""The defaults of Services (k8s.io/kubernetes/pkg/apis/core/v1/defaults.go)."""

from typing import Any

Json = dict[str, Any]

_STICKY_SECONDS = 10800
_WITH_CLUSTER_IP = ("ClusterIP", "NodePort", "LoadBalancer")
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


def default_service(service: Json) -> None:
    """Set the defaults of a Service. The embedded cluster uses IPv4."""
    spec = service.setdefault("spec", {})
    for field, value in (("sessionAffinity", "None"), ("type", "ClusterIP")):
        if not spec.get(field):
            spec[field] = value
    _default_affinity(spec)
    for port in spec.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort") and "port" in port:
            port["targetPort"] = port["port"]
    type_ = spec["type"]
    if _is_external(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if type_ in _WITH_CLUSTER_IP:
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        elif spec.get("clusterIPs") and "clusterIP" not in spec:
            spec["clusterIP"] = spec["clusterIPs"][0]
    if type_ == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def keep_allocated(service: Json, old: Json) -> None:
    """Copy a Service's allocated addresses and node ports from its old version, where an update omits them."""
    spec, old_spec = service.setdefault("spec", {}), old.get("spec", {})
    if _has(spec, old_spec, _WITH_CLUSTER_IP):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and old_spec.get(field):
                spec[field] = old_spec[field]
    if _has(spec, old_spec, _WITH_NODE_PORTS):
        given = {_make_port_key(port): port["nodePort"] for port in old_spec.get("ports", ()) if port.get("nodePort")}
        taken = {port.get("nodePort") for port in spec.get("ports", ())}
        for port in spec.get("ports", ()):
            node_port = given.get(_make_port_key(port))
            if not port.get("nodePort") and node_port not in taken | {None}:
                port["nodePort"] = node_port


def _default_affinity(spec: Json) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig", {})
        if "timeoutSeconds" not in config.get("clientIP", {}):
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _STICKY_SECONDS}}


def _is_external(spec: Json) -> bool:
    return spec["type"] in _WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))


def _has(spec: Json, old_spec: Json, types: tuple[str, ...]) -> bool:
    return spec.get("type", "ClusterIP") in types and old_spec.get("type", "ClusterIP") in types


def _make_port_key(port: Json) -> tuple[str, int]:
    return port.get("protocol", "TCP"), port.get("port", 0)
