"""The rules of Services (k8s.io/kubernetes/pkg/apis/core/validation)."""

from muster.api.core import Service, ServicePort, ServiceSpec, SessionAffinityConfig
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.addresses import (
    parse,
    validate_address_families,
    validate_ip_address,
    validate_network,
    validate_public_address,
)
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    required,
    unsupported,
)
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_labels
from muster.api.validation.pods.containers import PROTOCOLS
from muster.api.validation.pods.handlers import validate_port as port_rule

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES = ("Proxy", "VIP")
_ONE_DAY = 86400
_NOT_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"


def validate_create(service: Service) -> list[FieldError]:
    """Return the errors in a new Service with its defaults."""
    return [*new_metadata(service.metadata, names.dns_label), *_validate_spec(service.spec, ServiceSpec())]


def validate_update(new: Service, old: Service) -> list[FieldError]:
    """Return the errors in a change of a Service, whose allocated addresses and ports must stay."""
    return [
        *changed_metadata(new.metadata, old.metadata),
        *_validate_kept_addresses(new.spec, old.spec),
        *_validate_kept_load_balancer(new.spec, old.spec),
        *_validate_spec(new.spec, old.spec),
    ]


def validate_status_update(new: Service, old: Service) -> list[FieldError]:
    """Return the errors in a change of a Service's status."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_ingress_addresses(new, old)]


def is_headless(spec: ServiceSpec) -> bool:
    """Return whether the name of the service resolves to its pods."""
    return spec.cluster_ips == ("None",)


def _validate_spec(spec: ServiceSpec, old: ServiceSpec) -> Errors:
    headless = is_headless(spec)
    if not spec.ports and not headless and spec.type != "ExternalName":
        yield required("spec.ports")
    if headless and spec.type in ("LoadBalancer", "NodePort"):
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {spec.type} services")
    if spec.type == "ExternalName":
        yield from _validate_external_name(spec)
    yield from _validate_ports(spec.ports)
    yield from validate_labels("spec.selector", spec.selector)
    yield from _validate_session_affinity(spec)
    if spec.type != "ExternalName":
        yield from _validate_cluster_ips(spec, old)
    for i, ip in enumerate(spec.external_ips):
        yield from validate_ip_address(f"spec.externalIPs[{i}]", ip, old.external_ips)
        yield from validate_public_address(f"spec.externalIPs[{i}]", ip)
    if not spec.type:
        yield required("spec.type")
    elif spec.type not in _TYPES:
        yield unsupported("spec.type", spec.type, _TYPES)
    yield from _validate_port_numbers(spec)
    yield from _validate_load_balancer(spec, old)
    yield from _validate_traffic(spec)


def _validate_external_name(spec: ServiceSpec) -> Errors:
    for field, value in (
        ("clusterIPs", spec.cluster_ips),
        ("ipFamilies", spec.ip_families),
        ("ipFamilyPolicy", spec.ip_family_policy),
    ):
        if value:
            yield forbidden(f"spec.{field}", "may not be set for ExternalName services")
    name = spec.external_name.removesuffix(".")
    if not name:
        yield required("spec.externalName")
    else:
        yield from make_errors("spec.externalName", name, names.dns_subdomain(name))


def _validate_ports(ports: tuple[ServicePort, ...]) -> Errors:
    seen: set[str] = set()
    for i, port in enumerate(ports):
        path = f"spec.ports[{i}]"
        if port.name:
            yield from make_errors(f"{path}.name", port.name, names.dns_label(port.name))
            if port.name in seen:
                yield duplicate(f"{path}.name", port.name)
            seen.add(port.name)
        elif len(ports) > 1:
            yield required(f"{path}.name")
        yield from make_errors(f"{path}.port", port.port, names.port_number(port.port))
        if not port.protocol:
            yield required(f"{path}.protocol")
        elif port.protocol not in PROTOCOLS:
            yield unsupported(f"{path}.protocol", port.protocol, PROTOCOLS)
        yield from port_rule(f"{path}.targetPort", 0 if port.target_port is None else port.target_port)
        if port.app_protocol is not None:
            yield from make_errors(f"{path}.appProtocol", port.app_protocol, names.label_key(port.app_protocol))


def _validate_port_numbers(spec: ServiceSpec) -> Errors:
    node_ports: set[tuple[str, int]] = set()
    ports: set[tuple[str, int]] = set()
    if spec.type == "ClusterIP":
        for i, port in enumerate(spec.ports):
            if port.node_port:
                yield forbidden(f"spec.ports[{i}].nodePort", "may not be used when `type` is 'ClusterIP'")
    for i, port in enumerate(spec.ports):
        if port.node_port and (port.protocol, port.node_port) in node_ports:
            yield duplicate(f"spec.ports[{i}].nodePort", port.node_port)
        node_ports.add((port.protocol, port.node_port))
    for i, port in enumerate(spec.ports):
        if (port.protocol, port.port) in ports:
            yield duplicate(f"spec.ports[{i}]", ServicePort(protocol=port.protocol, port=port.port))
        ports.add((port.protocol, port.port))


def _validate_session_affinity(spec: ServiceSpec) -> Errors:
    config, path = spec.session_affinity_config, "spec.sessionAffinityConfig"
    if not spec.session_affinity:
        yield required("spec.sessionAffinity")
    elif spec.session_affinity not in _AFFINITIES:
        yield unsupported("spec.sessionAffinity", spec.session_affinity, _AFFINITIES)
    elif spec.session_affinity == "ClientIP":
        yield from _validate_client_ip(path, config)
    elif config is not None:
        yield forbidden(path, "must not be set when session affinity is None")


def _validate_client_ip(path: str, config: SessionAffinityConfig | None) -> Errors:
    missing = "when session affinity type is ClientIP"
    if config is None:
        yield required(path, missing)
    elif config.client_ip is None:
        yield required(f"{path}.clientIP", missing)
    elif config.client_ip.timeout_seconds is None:
        yield required(f"{path}.clientIP.timeoutSeconds", missing)
    elif not 0 < config.client_ip.timeout_seconds <= _ONE_DAY:
        sentence = f"must be greater than 0 and less than {_ONE_DAY}"
        yield invalid(f"{path}.clientIP.timeoutSeconds", config.client_ip.timeout_seconds, sentence)


def _validate_cluster_ips(spec: ServiceSpec, old: ServiceSpec) -> Errors:
    path, ips = "spec.clusterIPs", spec.cluster_ips
    if spec.cluster_ip and not ips:
        yield required(path)
    elif spec.cluster_ip and ips[0] != spec.cluster_ip:
        yield invalid(path, ips, "first value must match `clusterIP`")
    elif ips and not spec.cluster_ip:
        yield invalid(path, ips, "must be empty when `clusterIP` is not specified")
    yield from _validate_families(spec)
    if ips[:1] != ("None",):
        yield from _validate_real_cluster_ips(path, ips, spec.ip_families, old.cluster_ips)
    elif len(ips) > 1:
        yield invalid(path, ips, "'None' must be the first and only value")


def _validate_families(spec: ServiceSpec) -> Errors:
    for i, family in enumerate(spec.ip_families):
        if family not in _FAMILIES:
            yield unsupported(f"spec.ipFamilies[{i}]", family, _FAMILIES)
        if family in spec.ip_families[:i]:
            yield duplicate(f"spec.ipFamilies[{i}]", family)
    if spec.ip_family_policy not in (None, *_FAMILY_POLICIES):
        yield unsupported("spec.ipFamilyPolicy", spec.ip_family_policy, _FAMILY_POLICIES)


def _validate_real_cluster_ips(
    path: str, ips: tuple[str, ...], families: tuple[str, ...], known: tuple[str, ...]
) -> Errors:
    errors = [error for i, ip in enumerate(ips) for error in validate_ip_address(f"{path}[{i}]", ip, known)]
    yield from errors
    if len(ips) > 2:
        yield invalid(path, ips, "may only hold up to 2 values")
    if errors:
        return
    yield from validate_address_families(path, ips)
    for i, (ip, family) in enumerate(zip(ips, families, strict=False)):
        address = parse(ip)
        if address is not None and f"IPv{address.version}" != family:
            yield invalid(f"{path}[{i}]", ip, f"expected an {family} value as indicated by `ipFamilies[{i}]`")


def _validate_load_balancer(spec: ServiceSpec, old: ServiceSpec) -> Errors:
    balanced = spec.type == "LoadBalancer"
    ranges = spec.load_balancer_source_ranges
    if ranges and not balanced:
        yield forbidden("spec.LoadBalancerSourceRanges", _NOT_LOAD_BALANCER)
    known = tuple(each_range.strip() for each_range in old.load_balancer_source_ranges)
    for i, each_range in enumerate(ranges):
        yield from validate_network(f"spec.LoadBalancerSourceRanges[{i}]", each_range.strip(), known)
    if spec.allocate_load_balancer_node_ports is not None and not balanced:
        yield forbidden("spec.allocateLoadBalancerNodePorts", _NOT_LOAD_BALANCER)
    if spec.allocate_load_balancer_node_ports is None and balanced:
        yield required("allocateLoadBalancerNodePorts")
    if spec.load_balancer_class is not None:
        if balanced:
            messages = names.label_key(spec.load_balancer_class)
            yield from make_errors("spec.loadBalancerClass", spec.load_balancer_class, messages)
        else:
            yield forbidden("spec.loadBalancerClass", _NOT_LOAD_BALANCER)


def _validate_traffic(spec: ServiceSpec) -> Errors:
    external = spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and bool(spec.external_ips))
    policy = spec.external_traffic_policy
    if not external:
        if policy:
            sentence = "may only be set for externally-accessible services"
            yield invalid("spec.externalTrafficPolicy", policy, sentence)
    elif not policy:
        yield required("spec.externalTrafficPolicy")
    elif policy not in _TRAFFIC_POLICIES:
        yield unsupported("spec.externalTrafficPolicy", policy, _TRAFFIC_POLICIES)
    yield from _validate_health_check(spec)
    internal = spec.internal_traffic_policy
    if internal is None:
        if spec.type in ("NodePort", "LoadBalancer", "ClusterIP"):
            yield required("spec.internalTrafficPolicy")
    elif internal not in _TRAFFIC_POLICIES:
        yield unsupported("spec.internalTrafficPolicy", internal, _TRAFFIC_POLICIES)
    if spec.traffic_distribution not in (None, *_DISTRIBUTIONS):
        yield unsupported("spec.trafficDistribution", spec.traffic_distribution, _DISTRIBUTIONS)


def _needs_health_check(spec: ServiceSpec) -> bool:
    return spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"


def _validate_health_check(spec: ServiceSpec) -> Errors:
    number, path = spec.health_check_node_port, "spec.healthCheckNodePort"
    if not _needs_health_check(spec):
        if number:
            sentence = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield invalid(path, number, sentence)
    elif not number:
        yield required(path)
    else:
        yield from make_errors(path, number, names.port_number(number))


def _validate_kept_addresses(new: ServiceSpec, old: ServiceSpec) -> Errors:
    if "ExternalName" in (new.type, old.type):
        return
    headless, headless_before = is_headless(new), is_headless(old)
    if not (headless and headless_before):
        yield from _validate_first_value("clusterIP", new.cluster_ips, old.cluster_ips, new)
    if not headless and not headless_before:
        yield from _validate_first_value("ipFamily", new.ip_families, old.ip_families, new)


def _validate_first_value(field: str, now: tuple[str, ...], before: tuple[str, ...], spec: ServiceSpec) -> Errors:
    """Check that no value changes. A second one may be added, or removed if one address family is requested."""
    path = {"clusterIP": "spec.clusterIPs", "ipFamily": "spec.ipFamilies"}[field]
    if len(now) == len(before):
        for i, (value, old_value) in enumerate(zip(now, before, strict=True)):
            if value != old_value:
                # Upstream's path names the first family, whichever one changed.
                yield invalid(f"{path}[{i if field == 'clusterIP' else 0}]", now, "may not change once set")
        return
    if not now:
        yield invalid(f"{path}[0]", now, f"primary {field} can not be unset")
    elif before and now[0] != before[0]:
        yield invalid(f"{path}[0]", now, "may not change once set")
    if len(now) == 1 and len(before) > 1 and spec.ip_family_policy != "SingleStack":
        sentence = f"must be set to 'SingleStack' when releasing the secondary {field}"
        yield invalid("spec.ipFamilyPolicy", spec.ip_family_policy, sentence)


def _validate_kept_load_balancer(new: ServiceSpec, old: ServiceSpec) -> Errors:
    both = new.type == old.type == "LoadBalancer"
    if both and new.load_balancer_class != old.load_balancer_class:
        yield invalid("spec.loadBalancerClass", new.load_balancer_class, "may not change once set")
    checked = _needs_health_check(new) and _needs_health_check(old)
    if checked and new.health_check_node_port != old.health_check_node_port:
        yield forbidden("spec.healthCheckNodePort", "field is immutable")


def _validate_ingress_addresses(new: Service, old: Service) -> Errors:
    path, ingress = "status.loadBalancer.ingress", new.status.load_balancer.ingress
    if new.spec.type != "LoadBalancer":
        if ingress:
            yield forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    known = tuple(entry.ip for entry in old.status.load_balancer.ingress if entry.ip)
    for i, entry in enumerate(ingress):
        place = f"{path}[{i}]"
        if entry.ip:
            yield from validate_ip_address(f"{place}.ip", entry.ip, known)
            if entry.ip_mode is None:
                yield required(f"{place}.ipMode", "must be specified when `ip` is set")
        elif entry.ip_mode is not None:
            yield forbidden(f"{place}.ipMode", "may not be specified when `ip` is not set")
        if entry.ip and entry.ip_mode not in (None, *_IP_MODES):
            yield unsupported(f"{place}.ipMode", entry.ip_mode, _IP_MODES)
        if entry.hostname:
            yield from make_errors(f"{place}.hostname", entry.hostname, names.dns_subdomain(entry.hostname))
            if parse(entry.hostname) is not None:
                yield invalid(f"{place}.hostname", entry.hostname, "must be a DNS name, not an IP address")
