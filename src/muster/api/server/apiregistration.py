"""`apiregistration.k8s.io/v1`: groups that other servers serve. Nothing here passes requests on to them."""

from muster.api.kinds import Kind
from muster.api.markers import Base64, Int32, Required
from muster.api.meta import ObjectMeta, PlainCondition, Struct


class ServiceReference(Struct):
    """Names a service."""

    namespace: str = ""
    name: str = ""
    port: Int32 | None = None


class APIServiceSpec(Struct):
    """Which version of which group, and who serves it."""

    service: ServiceReference | None = None
    group: str = ""
    version: str = ""
    insecure_skip_tls_verify: bool = False
    ca_bundle: Base64 = b""
    group_priority_minimum: Required[Int32] = 0
    version_priority: Required[Int32] = 0


class APIServiceCondition(PlainCondition):
    """One observed aspect of an APIService."""


class APIServiceStatus(Struct):
    """What was observed of an APIService."""

    conditions: tuple[APIServiceCondition, ...] = ()


class APIService(Struct):
    """Says who serves a version of a group; its name is <version>.<group>."""

    metadata: ObjectMeta = ObjectMeta()
    spec: APIServiceSpec = APIServiceSpec()
    status: APIServiceStatus = APIServiceStatus()


API_SERVICE = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", APIService, namespaced=False)
