"""The Endpoints of a service, which EndpointSlices replace."""

from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct


class EndpointAddress(Struct):
    """One address of an endpoint."""

    ip: Required[str] = ""


class EndpointPort(Struct):
    """A port on which all addresses of an Endpoints subset serve."""

    name: str = ""
    port: Required[Int32] = 0
    protocol: str = ""


class EndpointSubset(Struct):
    """A set of addresses of a Service that have the same ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(Struct):
    """The endpoints of the service of the same name."""

    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[EndpointSubset, ...] = ()
