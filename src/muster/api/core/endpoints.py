"""Endpoints of a service, in the older form of which EndpointSlices are the newer."""

from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct


class EndpointAddress(Struct):
    """One place."""

    ip: Required[str] = ""


class EndpointPort(Struct):
    """A port of all places."""

    name: str = ""
    port: Required[Int32] = 0
    protocol: str = ""


class EndpointSubset(Struct):
    """Places that have the same ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(Struct):
    """Where the service of the same name leads."""

    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[EndpointSubset, ...] = ()
