"""`networking.k8s.io/v1`: network policies and ingresses, with the fields that rules read."""

from muster.api.core.references import TypedLocalObjectReference
from muster.api.kinds import Kind
from muster.api.markers import Int32, IntOrString
from muster.api.meta import LabelSelector, ObjectMeta, Struct


class NetworkPolicyPort(Struct):
    """Ports to which traffic is allowed."""

    protocol: str | None = None
    port: IntOrString | None = None
    end_port: Int32 | None = None


class IPBlock(Struct):
    """A range of addresses."""

    cidr: str = ""
    except_: tuple[str, ...] = ()


class NetworkPolicyPeer(Struct):
    """The other end of traffic: pods, or a range of addresses."""

    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class NetworkPolicyIngressRule(Struct):
    """Ingress traffic that is allowed."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    from_: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicyEgressRule(Struct):
    """Egress traffic that is allowed."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    to: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicySpec(Struct):
    """The selected pods and their allowed traffic."""

    pod_selector: LabelSelector = LabelSelector()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    egress: tuple[NetworkPolicyEgressRule, ...] = ()
    policy_types: tuple[str, ...] = ()


class NetworkPolicy(Struct):
    """A policy of the allowed traffic of some pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkPolicySpec = NetworkPolicySpec()


class ServiceBackendPort(Struct):
    """A port of a service, by name or number."""

    name: str = ""
    number: Int32 = 0


class IngressServiceBackend(Struct):
    """A service as the destination of traffic."""

    name: str = ""
    port: ServiceBackendPort = ServiceBackendPort()


class IngressBackend(Struct):
    """The destination of traffic. Exactly one field is set."""

    service: IngressServiceBackend | None = None
    resource: TypedLocalObjectReference | None = None


class HTTPIngressPath(Struct):
    """A path, and the destination of its requests."""

    path: str = ""
    path_type: str | None = None
    backend: IngressBackend = IngressBackend()


class HTTPIngressRuleValue(Struct):
    """Paths, and the destinations of their requests."""

    paths: tuple[HTTPIngressPath, ...] = ()


class IngressRule(Struct):
    """The destinations of requests for a host."""

    host: str = ""
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Struct):
    """The certificate of some hosts."""

    hosts: tuple[str, ...] = ()
    secret_name: str = ""


class IngressSpec(Struct):
    """The desired state of an Ingress: hosts, paths and destinations."""

    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    tls: tuple[IngressTLS, ...] = ()
    rules: tuple[IngressRule, ...] = ()


class Ingress(Struct):
    """A set of rules that route external requests to services."""

    metadata: ObjectMeta = ObjectMeta()
    spec: IngressSpec = IngressSpec()


class IngressClassSpec(Struct):
    """The controller that serves the Ingresses of a class."""

    controller: str = ""


class IngressClass(Struct):
    """A class of Ingresses, which names the controller that serves them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: IngressClassSpec = IngressClassSpec()


_GROUP = "networking.k8s.io"
NETWORK_POLICY = Kind(_GROUP, "v1", "NetworkPolicy", "networkpolicies", NetworkPolicy)
INGRESS = Kind(_GROUP, "v1", "Ingress", "ingresses", Ingress)
INGRESS_CLASS = Kind(_GROUP, "v1", "IngressClass", "ingressclasses", IngressClass, namespaced=False)
