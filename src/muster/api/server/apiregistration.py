"""`apiregistration.k8s.io/v1`: groups that other servers serve. Nothing here passes requests on to them."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.markers import Base64, Int32, Required, merged_by
from muster.api.meta import ObjectMeta, PlainCondition, Struct


class ServiceReference(Struct):
    """Names a service.

    namespace: its namespace.
    name: its name.
    port: its port; 443 if absent.
    """

    namespace: str = ""
    name: str = ""
    port: Int32 | None = None


class APIServiceSpec(Struct):
    """Which version of which group, and who serves it.

    service: who serves it; this server if absent.
    group: the group.
    version: the version.
    insecure_skip_tls_verify: whether the other server's certificate is not checked.
    ca_bundle: whose certificates are trusted, in PEM.
    group_priority_minimum: the greater, the more the group is preferred.
    version_priority: the greater, the more the version is preferred.
    """

    service: ServiceReference | None = None
    group: str = ""
    version: str = ""
    insecure_skip_tls_verify: bool = False
    ca_bundle: Base64 = b""
    group_priority_minimum: Required[Int32] = 0
    version_priority: Required[Int32] = 0


class APIServiceCondition(PlainCondition):
    """One observed aspect of an APIService.

    type: Available.
    """


class APIServiceStatus(Struct):
    """What was observed of an APIService.

    conditions: observed aspects.
    """

    conditions: Annotated[tuple[APIServiceCondition, ...], merged_by("type")] = ()


class APIService(Struct):
    """Says who serves a version of a group; its name is <version>.<group>.

    metadata: what every object carries.
    spec: which version, and who serves it.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: APIServiceSpec = APIServiceSpec()
    status: APIServiceStatus = APIServiceStatus()


API_SERVICE = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", APIService, namespaced=False)
