"""`networking.k8s.io/v1`: network policies and ingresses, with the fields that rules read."""

from muster.api.core.references import TypedLocalObjectReference
from muster.api.kinds import Kind
from muster.api.markers import Int32, IntOrString
from muster.api.meta import LabelSelector, ObjectMeta, Struct


class NetworkPolicyPort(Struct):
    """Ports that traffic may go to."""

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
    """Traffic that may come in."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    from_: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicyEgressRule(Struct):
    """Traffic that may go out."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    to: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicySpec(Struct):
    """What traffic some pods may have."""

    pod_selector: LabelSelector = LabelSelector()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    egress: tuple[NetworkPolicyEgressRule, ...] = ()
    policy_types: tuple[str, ...] = ()


class NetworkPolicy(Struct):
    """Says what traffic some pods may have."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkPolicySpec = NetworkPolicySpec()


class ServiceBackendPort(Struct):
    """A port of a service, by name or number."""

    name: str = ""
    number: Int32 = 0


class IngressServiceBackend(Struct):
    """A service as the place where traffic goes."""

    name: str = ""
    port: ServiceBackendPort = ServiceBackendPort()


class IngressBackend(Struct):
    """Where traffic goes; exactly one."""

    service: IngressServiceBackend | None = None
    resource: TypedLocalObjectReference | None = None


class HTTPIngressPath(Struct):
    """A path, and where requests for it go."""

    path: str = ""
    path_type: str | None = None
    backend: IngressBackend = IngressBackend()


class HTTPIngressRuleValue(Struct):
    """Paths, and where requests for them go."""

    paths: tuple[HTTPIngressPath, ...] = ()


class IngressRule(Struct):
    """Where requests for a host go."""

    host: str = ""
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Struct):
    """A certificate for hosts."""

    hosts: tuple[str, ...] = ()
    secret_name: str = ""


class IngressSpec(Struct):
    """Ways in from outside."""

    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    tls: tuple[IngressTLS, ...] = ()
    rules: tuple[IngressRule, ...] = ()


class Ingress(Struct):
    """Leads requests from outside to services."""

    metadata: ObjectMeta = ObjectMeta()
    spec: IngressSpec = IngressSpec()


class IngressClassSpec(Struct):
    """Who serves Ingresses of a class."""

    controller: str = ""


class IngressClass(Struct):
    """Says who serves the Ingresses that name it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: IngressClassSpec = IngressClassSpec()


_GROUP = "networking.k8s.io"
NETWORK_POLICY = Kind(_GROUP, "v1", "NetworkPolicy", "networkpolicies", NetworkPolicy)
INGRESS = Kind(_GROUP, "v1", "Ingress", "ingresses", Ingress)
INGRESS_CLASS = Kind(_GROUP, "v1", "IngressClass", "ingressclasses", IngressClass, namespaced=False)
