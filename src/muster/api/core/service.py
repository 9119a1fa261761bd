# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The service: a name for a changing set of pods."""

from muster.api.markers import Int32, IntOrString, Required
from muster.api.meta import Condition, ObjectMeta, Struct


class ServicePort(Struct):
    """A port of a service."""

    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: Required[Int32] = 0
    target_port: IntOrString | None = None
    node_port: Int32 = 0


class ClientIPConfig(Struct):
    """Settings of session affinity by the client's address."""

    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(Struct):
    """Settings of session affinity."""

    client_ip: ClientIPConfig | None = None


class ServiceSpec(Struct):
    """The desired state of a service: the pods behind it, and how clients reach it."""

    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = {}
    cluster_ip: str = ""
    cluster_ips: tuple[str, ...] = ()
    type: str = ""
    external_ips: tuple[str, ...] = ()
    session_affinity: str = ""
    load_balancer_ip: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()
    external_name: str = ""
    external_traffic_policy: str = ""
    health_check_node_port: Int32 = 0
    publish_not_ready_addresses: bool = False
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: str | None = None
    traffic_distribution: str | None = None


class PortStatus(Struct):
    """The state of a port of a load balancer."""

    port: Required[Int32] = 0
    protocol: Required[str] = ""
    error: str | None = None


class LoadBalancerIngress(Struct):
    """An address at which a load balancer accepts traffic."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Struct):
    """The state of a load balancer."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Struct):
    """The observed state of a service."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()
    conditions: tuple[Condition, ...] = ()


class Service(Struct):
    """A name, and possibly an address, of a changing set of pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()
