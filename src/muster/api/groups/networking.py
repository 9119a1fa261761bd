"""`networking.k8s.io/v1`: who may talk to whom, and ways in from outside. Nothing here acts on them."""

from typing import Annotated

from muster.api.core.references import TypedLocalObjectReference
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Int32, IntOrString, Required, Strings, merged_by, one_of
from muster.api.meta import Condition, LabelSelector, ObjectMeta, Struct


class NetworkPolicyPort(Struct):
    """Ports that traffic may go to.

    protocol: TCP, UDP or SCTP; TCP if absent.
    port: number or name of the port; all if absent.
    end_port: the last of a range that begins with port.
    """

    protocol: Annotated[str, one_of("SCTP", "TCP", "UDP")] | None = None
    port: IntOrString | None = None
    end_port: Int32 | None = None


class IPBlock(Struct):
    """A range of addresses.

    cidr: the range.
    except_: ranges within it that are not meant.
    """

    cidr: Required[str] = ""
    except_: Strings = ()


class NetworkPolicyPeer(Struct):
    """The other end of traffic: pods, or a range of addresses.

    pod_selector: which pods; all if only namespaces are selected.
    namespace_selector: in which namespaces; the policy's own if absent.
    ip_block: a range of addresses, instead.
    """

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class NetworkPolicyIngressRule(Struct):
    """Traffic that may come in.

    ports: to where; anywhere if empty.
    from_: from which peers; from all if empty.
    """

    ports: Annotated[tuple[NetworkPolicyPort, ...], ATOMIC] = ()
    from_: Annotated[tuple[NetworkPolicyPeer, ...], ATOMIC] = ()


class NetworkPolicyEgressRule(Struct):
    """Traffic that may go out.

    ports: to which ports; any if empty.
    to: to which peers; to all if empty.
    """

    ports: Annotated[tuple[NetworkPolicyPort, ...], ATOMIC] = ()
    to: Annotated[tuple[NetworkPolicyPeer, ...], ATOMIC] = ()


class NetworkPolicySpec(Struct):
    """What traffic some pods may have.

    pod_selector: the pods; all of the namespace if empty.
    ingress: what may come in; nothing if empty.
    egress: what may go out; nothing if empty.
    policy_types: Ingress, Egress or both: which of the two the policy is about.
    """

    pod_selector: LabelSelector = LabelSelector()
    ingress: Annotated[tuple[NetworkPolicyIngressRule, ...], ATOMIC] = ()
    egress: Annotated[tuple[NetworkPolicyEgressRule, ...], ATOMIC] = ()
    policy_types: Strings = ()


class NetworkPolicy(Struct):
    """Says what traffic some pods may have.

    metadata: what every object carries.
    spec: what traffic.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkPolicySpec = NetworkPolicySpec()


class ServiceBackendPort(Struct):
    """A port of a service, by name or number.

    name: its name.
    number: its number.
    """

    name: str = ""
    number: Int32 = 0


class IngressServiceBackend(Struct):
    """A service as the place where traffic goes.

    name: name of the service.
    port: its port.
    """

    name: Required[str] = ""
    port: ServiceBackendPort = ServiceBackendPort()


class IngressBackend(Struct):
    """Where traffic goes; exactly one.

    service: a service.
    resource: another object.
    """

    service: IngressServiceBackend | None = None
    resource: TypedLocalObjectReference | None = None


class HTTPIngressPath(Struct):
    """A path, and where requests for it go.

    path: the path.
    path_type: Exact, Prefix or ImplementationSpecific.
    backend: where they go.
    """

    path: str = ""
    path_type: Annotated[Required[str | None], one_of("Exact", "ImplementationSpecific", "Prefix")] = None
    backend: Required[IngressBackend] = IngressBackend()


class HTTPIngressRuleValue(Struct):
    """Paths, and where requests for them go.

    paths: the paths.
    """

    paths: Required[Annotated[tuple[HTTPIngressPath, ...], ATOMIC]] = ()


class IngressRule(Struct):
    """Where requests for a host go.

    host: name of the host; all if empty.
    http: by path.
    """

    host: str = ""
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Struct):
    """A certificate for hosts.

    hosts: names in the certificate.
    secret_name: the Secret with certificate and key.
    """

    hosts: Strings = ()
    secret_name: str = ""


class IngressSpec(Struct):
    """Ways in from outside.

    ingress_class_name: name of the IngressClass.
    default_backend: where requests go that no rule is for.
    tls: certificates.
    rules: where requests go.
    """

    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    tls: Annotated[tuple[IngressTLS, ...], ATOMIC] = ()
    rules: Annotated[tuple[IngressRule, ...], ATOMIC] = ()


class IngressPortStatus(Struct):
    """State of a port of a load balancer.

    port: the port.
    protocol: TCP, UDP or SCTP.
    error: what is wrong with it.
    """

    port: Required[Int32] = 0
    protocol: Required[str] = ""
    error: str | None = None


class IngressLoadBalancerIngress(Struct):
    """Where a load balancer takes traffic.

    ip: its address.
    hostname: its name.
    ports: state of its ports.
    """

    ip: str = ""
    hostname: str = ""
    ports: Annotated[tuple[IngressPortStatus, ...], ATOMIC] = ()


class IngressLoadBalancerStatus(Struct):
    """State of a load balancer.

    ingress: where it takes traffic.
    """

    ingress: Annotated[tuple[IngressLoadBalancerIngress, ...], ATOMIC] = ()


class IngressStatus(Struct):
    """What was observed of an Ingress.

    load_balancer: state of its load balancer.
    """

    load_balancer: IngressLoadBalancerStatus = IngressLoadBalancerStatus()


class Ingress(Struct):
    """Leads requests from outside to services.

    metadata: what every object carries.
    spec: ways in.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: IngressSpec = IngressSpec()
    status: IngressStatus = IngressStatus()


class IngressClassParametersReference(Struct):
    """Names an object with settings of the controller.

    api_group: group of the object's kind; empty for the core group.
    kind: kind of the object.
    name: name of the object.
    scope: Cluster or Namespace; Cluster if absent.
    namespace: its namespace, for scope Namespace.
    """

    api_group: str | None = None
    kind: Required[str] = ""
    name: Required[str] = ""
    scope: str | None = None
    namespace: str | None = None


class IngressClassSpec(Struct):
    """Who serves Ingresses of a class.

    controller: name of the controller; never changes.
    parameters: an object with settings of it.
    """

    controller: str = ""
    parameters: IngressClassParametersReference | None = None


class IngressClass(Struct):
    """Says who serves the Ingresses that name it.

    metadata: what every object carries.
    spec: who serves them.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: IngressClassSpec = IngressClassSpec()


class ParentReference(Struct):
    """The object that an address belongs to.

    group: group of its kind.
    resource: resource of its kind.
    namespace: its namespace.
    name: its name.
    """

    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


class IPAddressSpec(Struct):
    """Whose an address is.

    parent_ref: the object that it belongs to.
    """

    parent_ref: ParentReference | None = None


class IPAddress(Struct):
    """An address that is taken; its name is the address.

    metadata: what every object carries.
    spec: whose it is.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: IPAddressSpec = IPAddressSpec()


class ServiceCIDRSpec(Struct):
    """Ranges for addresses of services.

    cidrs: the ranges, at most one of each family; never changes.
    """

    cidrs: Strings = ()


class ServiceCIDRStatus(Struct):
    """What was observed of a range.

    conditions: observed aspects.
    """

    conditions: Annotated[tuple[Condition, ...], merged_by("type")] = ()


class ServiceCIDR(Struct):
    """Ranges from which services get addresses.

    metadata: what every object carries.
    spec: the ranges.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceCIDRSpec = ServiceCIDRSpec()
    status: ServiceCIDRStatus = ServiceCIDRStatus()


_GROUP = "networking.k8s.io"
NETWORK_POLICY = Kind(_GROUP, "v1", "NetworkPolicy", "networkpolicies", NetworkPolicy)
INGRESS = Kind(_GROUP, "v1", "Ingress", "ingresses", Ingress)
INGRESS_CLASS = Kind(_GROUP, "v1", "IngressClass", "ingressclasses", IngressClass, namespaced=False)
IP_ADDRESS = Kind(_GROUP, "v1", "IPAddress", "ipaddresses", IPAddress, namespaced=False)
SERVICE_CIDR = Kind(_GROUP, "v1", "ServiceCIDR", "servicecidrs", ServiceCIDR, namespaced=False)
