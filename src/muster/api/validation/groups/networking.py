"""The rules of network kinds (k8s.io/kubernetes/pkg/apis/{networking,discovery,core}/validation)."""

from muster.api.core import Endpoints
from muster.api.groups.discovery import EndpointSlice
from muster.api.groups.networking import (
    Ingress,
    IngressBackend,
    IngressClass,
    IngressRule,
    NetworkPolicy,
    NetworkPolicyPeer,
    NetworkPolicyPort,
)
from muster.api.validation import names
from muster.api.validation.addresses import validate_network
from muster.api.validation.fields import (
    Errors,
    forbidden,
    invalid,
    make_errors,
    required,
    too_many,
    unsupported,
    validate_immutable,
)
from muster.api.validation.metadata import validate_label_selector
from muster.api.validation.standard import Standard

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100


def _validate_network_policy(policy: NetworkPolicy) -> Errors:
    spec = policy.spec
    yield from validate_label_selector("spec.podSelector", spec.pod_selector)
    for i, incoming in enumerate(spec.ingress):
        yield from _validate_rule(f"spec.ingress[{i}]", incoming.ports, "from", incoming.from_)
    for i, outgoing in enumerate(spec.egress):
        yield from _validate_rule(f"spec.egress[{i}]", outgoing.ports, "to", outgoing.to)
    if len(spec.policy_types) > 2:
        yield invalid("spec.policyTypes", spec.policy_types, "may not specify more than two policyTypes")
        return
    for i, type_ in enumerate(spec.policy_types):
        if type_ not in ("Ingress", "Egress"):
            yield unsupported(f"spec.policyTypes[{i}]", type_, ("Egress", "Ingress"))


def _validate_rule(
    path: str, ports: tuple[NetworkPolicyPort, ...], side: str, peers: tuple[NetworkPolicyPeer, ...]
) -> Errors:
    for i, port in enumerate(ports):
        yield from _validate_policy_port(f"{path}.ports[{i}]", port)
    for i, peer in enumerate(peers):
        yield from _validate_peer(f"{path}.{side}[{i}]", peer)


def _validate_policy_port(path: str, port: NetworkPolicyPort) -> Errors:
    if port.protocol is not None and port.protocol not in _PROTOCOLS:
        yield unsupported(f"{path}.protocol", port.protocol, _PROTOCOLS)
    if isinstance(port.port, int):
        yield from make_errors(f"{path}.port", port.port, names.port_number(port.port))
        if port.end_port is not None and port.end_port < port.port:
            yield invalid(f"{path}.endPort", port.end_port, "must be greater than or equal to `port`")
    elif port.port is not None:
        yield from make_errors(f"{path}.port", port.port, names.port_name(port.port))
        if port.end_port is not None:
            yield invalid(f"{path}.endPort", port.end_port, "may not be specified when `port` is non-numeric")
    elif port.end_port is not None:
        yield invalid(f"{path}.endPort", port.end_port, "may not be specified when `port` is not specified")


def _validate_peer(path: str, peer: NetworkPolicyPeer) -> Errors:
    given = sum(part is not None for part in (peer.pod_selector, peer.namespace_selector, peer.ip_block))
    yield from validate_label_selector(f"{path}.podSelector", peer.pod_selector)
    yield from validate_label_selector(f"{path}.namespaceSelector", peer.namespace_selector)
    if peer.ip_block is not None:
        if not peer.ip_block.cidr:
            yield required(f"{path}.ipBlock.cidr")
        else:
            yield from validate_network(f"{path}.ipBlock.cidr", peer.ip_block.cidr)
        for i, part in enumerate(peer.ip_block.except_):
            yield from validate_network(f"{path}.ipBlock.except[{i}]", part)
    if not given:
        yield required(path, "must specify a peer")
    elif given > 1 and peer.ip_block is not None:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _validate_ingress(ingress: Ingress) -> Errors:
    spec = ingress.spec
    if not spec.rules and spec.default_backend is None:
        yield invalid("spec", spec, "either `defaultBackend` or `rules` must be specified")
    if spec.default_backend is not None:
        yield from _validate_backend("spec.defaultBackend", spec.default_backend)
    for i, rule in enumerate(spec.rules):
        yield from _validate_ingress_rule(f"spec.rules[{i}]", rule)
    for i, tls in enumerate(spec.tls):
        for j, host in enumerate(tls.hosts):
            yield from _validate_host(f"spec.tls[{i}].hosts[{j}]", host)
    if spec.ingress_class_name is not None:
        yield from make_errors(
            "spec.ingressClassName", spec.ingress_class_name, names.dns_subdomain(spec.ingress_class_name)
        )


def _validate_ingress_rule(path: str, rule: IngressRule) -> Errors:
    if rule.host:
        yield from _validate_host(f"{path}.host", rule.host)
    if rule.http is None:
        return
    if not rule.http.paths:
        yield required(f"{path}.http.paths")
    for i, each_path in enumerate(rule.http.paths):
        place = f"{path}.http.paths[{i}]"
        if each_path.path_type is None:
            yield required(f"{place}.pathType", "pathType must be specified")
        elif each_path.path_type not in _PATH_TYPES:
            yield unsupported(f"{place}.pathType", each_path.path_type, _PATH_TYPES)
        elif not each_path.path.startswith("/") and (each_path.path or each_path.path_type in ("Exact", "Prefix")):
            yield invalid(f"{place}.path", each_path.path, "must be an absolute path")
        yield from _validate_backend(f"{place}.backend", each_path.backend)


def _validate_host(path: str, host: str) -> Errors:
    yield from make_errors(path, host, names.dns_subdomain(host.removeprefix("*.")))


def _validate_backend(path: str, backend: IngressBackend) -> Errors:
    if backend.service is not None and backend.resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif backend.resource is None and backend.service is None:
        yield required(path, "`service` or `resource` is required")
    service = backend.service
    if service is None:
        return
    if not service.name:
        yield required(f"{path}.service.name")
    else:
        yield from make_errors(f"{path}.service.name", service.name, names.dns_1035_label(service.name))
    if service.port.name and service.port.number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif service.port.name:
        yield from make_errors(f"{path}.service.port.name", service.port.name, names.port_name(service.port.name))
    elif service.port.number:
        yield from make_errors(
            f"{path}.service.port.number", service.port.number, names.port_number(service.port.number)
        )
    else:
        yield required(path, "port name or number is required")


def _validate_ingress_class(ingress_class: IngressClass) -> Errors:
    if not ingress_class.spec.controller:
        yield required("spec.controller")


def _validate_ingress_class_change(new: IngressClass, old: IngressClass) -> Errors:
    yield from validate_immutable("spec.controller", new.spec.controller, old.spec.controller)


def _validate_endpoints(endpoints: Endpoints) -> Errors:
    for i, subset in enumerate(endpoints.subsets):
        path = f"subsets[{i}]"
        if not subset.addresses and not subset.not_ready_addresses:
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for j, port in enumerate(subset.ports):
            yield from make_errors(f"{path}.ports[{j}].port", port.port, names.port_number(port.port))
            if port.protocol not in _PROTOCOLS:
                yield unsupported(f"{path}.ports[{j}].protocol", port.protocol, _PROTOCOLS)


def _validate_endpoint_slice(endpoint_slice: EndpointSlice) -> Errors:
    if not endpoint_slice.address_type:
        yield required("addressType")
    elif endpoint_slice.address_type not in ("FQDN", "IPv4", "IPv6"):
        yield unsupported("addressType", endpoint_slice.address_type, ("FQDN", "IPv4", "IPv6"))
    if len(endpoint_slice.endpoints) > _MAX_ENDPOINTS:
        yield too_many("endpoints", len(endpoint_slice.endpoints), _MAX_ENDPOINTS)
    for i, endpoint in enumerate(endpoint_slice.endpoints):
        if not endpoint.addresses:
            yield required(f"endpoints[{i}].addresses", "must contain at least 1 address")
        elif len(endpoint.addresses) > _MAX_ADDRESSES:
            yield too_many(f"endpoints[{i}].addresses", len(endpoint.addresses), _MAX_ADDRESSES)


def _validate_endpoint_slice_change(new: EndpointSlice, old: EndpointSlice) -> Errors:
    yield from validate_immutable("addressType", new.address_type, old.address_type)


NETWORK_POLICY = Standard(_validate_network_policy)
INGRESS = Standard(_validate_ingress)
INGRESS_CLASS = Standard(_validate_ingress_class, _validate_ingress_class_change, namespaced=False)
ENDPOINTS = Standard(_validate_endpoints)
ENDPOINT_SLICE = Standard(_validate_endpoint_slice, _validate_endpoint_slice_change)
