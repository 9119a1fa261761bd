"""`discovery.k8s.io/v1`: the endpoints of services, with the fields that rules read."""

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct


class Endpoint(Struct):
    """One endpoint of a service."""

    addresses: tuple[str, ...] = ()


class EndpointSlice(Struct):
    """Some of the endpoints of a service."""

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()


ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice)
