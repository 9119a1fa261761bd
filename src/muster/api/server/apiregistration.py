"""`apiregistration.k8s.io/v1`: API groups that other servers serve. Muster does not forward requests to them."""

from muster.api.kinds import Kind
from muster.api.markers import Base64, Int32, Required
from muster.api.meta import ObjectMeta, PlainCondition, Struct


class ServiceReference(Struct):
    """A reference to a service."""

    namespace: str = ""
    name: str = ""
    port: Int32 | None = None


class APIServiceSpec(Struct):
    """The version of a group, and the service that serves it."""

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
    """The observed state of an APIService."""

    conditions: tuple[APIServiceCondition, ...] = ()


class APIService(Struct):
    """The registration of the server of a version of a group. Its name is <version>.<group>."""

    metadata: ObjectMeta = ObjectMeta()
    spec: APIServiceSpec = APIServiceSpec()
    status: APIServiceStatus = APIServiceStatus()


API_SERVICE = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", APIService, namespaced=False)
