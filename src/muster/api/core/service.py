# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The service: a name for a changing set of pods."""

from typing import Annotated

from muster.api.markers import ATOMIC, ATOMIC_MAP, Default, Int32, IntOrString, Required, Strings, merged_by, one_of
from muster.api.meta import Condition, ObjectMeta, Struct


class ServicePort(Struct):
    """A port of a service.

    name: a DNS label, unique in the service; may be empty if it is the only port.
    protocol: TCP, UDP or SCTP; TCP if empty.
    app_protocol: what is spoken on the port.
    port: the service's port.
    target_port: the pods' port, by number or name; the same as port if absent.
    node_port: the port on every node, for NodePort and LoadBalancer.
    """

    name: str = ""
    protocol: Annotated[str, one_of("SCTP", "TCP", "UDP"), Default("TCP")] = ""
    app_protocol: str | None = None
    port: Required[Int32] = 0
    target_port: IntOrString | None = None
    node_port: Int32 = 0


class ClientIPConfig(Struct):
    """Settings of session affinity by the client's address.

    timeout_seconds: how long a session sticks; 1 to 86400; 10800 if absent.
    """

    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(Struct):
    """Settings of session affinity.

    client_ip: by the client's address.
    """

    client_ip: ClientIPConfig | None = None


class ServiceSpec(Struct):
    """What a service stands for and how it is reached.

    ports: ports of the service.
    selector: labels of the pods; without it Endpoints of other origin say where the service leads.
    cluster_ip: its address; None for a headless service, whose name stands for the pods themselves.
    cluster_ips: its addresses, by address family; the first is clusterIP.
    type: ClusterIP, NodePort, LoadBalancer or ExternalName.
    external_ips: further addresses for which nodes take traffic.
    session_affinity: None or ClientIP.
    load_balancer_ip: deprecated wish for an address of the load balancer.
    load_balancer_source_ranges: from where the load balancer takes traffic.
    external_name: the name that an ExternalName service stands for.
    external_traffic_policy: Cluster or Local: which pods get traffic from outside.
    health_check_node_port: port of the health check, for externalTrafficPolicy Local.
    publish_not_ready_addresses: whether names also stand for pods that are not ready.
    session_affinity_config: settings of session affinity.
    ip_families: IPv4, IPv6 or both.
    ip_family_policy: SingleStack, PreferDualStack or RequireDualStack.
    allocate_load_balancer_node_ports: whether a load balancer needs node ports.
    load_balancer_class: who implements the load balancer.
    internal_traffic_policy: Cluster or Local: which pods get traffic from inside.
    traffic_distribution: wish for closeness, such as PreferClose.
    """

    ports: Annotated[tuple[ServicePort, ...], merged_by("port", "protocol")] = ()
    selector: Annotated[dict[str, str], ATOMIC_MAP] = {}
    cluster_ip: str = ""
    cluster_ips: Strings = ()
    type: Annotated[str, one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")] = ""
    external_ips: Strings = ()
    session_affinity: Annotated[str, one_of("ClientIP", "None")] = ""
    load_balancer_ip: str = ""
    load_balancer_source_ranges: Strings = ()
    external_name: str = ""
    external_traffic_policy: Annotated[str, one_of("Cluster", "Local")] = ""
    health_check_node_port: Int32 = 0
    publish_not_ready_addresses: bool = False
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: Strings = ()
    ip_family_policy: Annotated[str, one_of("PreferDualStack", "RequireDualStack", "SingleStack")] | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: Annotated[str, one_of("Cluster", "Local")] | None = None
    traffic_distribution: str | None = None


class PortStatus(Struct):
    """State of a port of a load balancer.

    port: the port.
    protocol: TCP, UDP or SCTP.
    error: what is wrong with it.
    """

    port: Required[Int32] = 0
    protocol: Required[str] = ""
    error: str | None = None


class LoadBalancerIngress(Struct):
    """Where a load balancer takes traffic.

    ip: its address.
    hostname: its name.
    ip_mode: VIP or Proxy.
    ports: state of its ports.
    """

    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: Annotated[tuple[PortStatus, ...], ATOMIC] = ()


class LoadBalancerStatus(Struct):
    """State of a load balancer.

    ingress: where it takes traffic.
    """

    ingress: Annotated[tuple[LoadBalancerIngress, ...], ATOMIC] = ()


class ServiceStatus(Struct):
    """What was observed of a service.

    load_balancer: state of its load balancer.
    conditions: observed aspects.
    """

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()
    conditions: Annotated[tuple[Condition, ...], merged_by("type")] = ()


class Service(Struct):
    """A name, and maybe an address, for a changing set of pods.

    metadata: what every object carries.
    spec: what it stands for and how it is reached.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()
