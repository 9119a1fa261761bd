"""Where a service leads, in the older form of which EndpointSlices are the newer."""

from typing import Annotated

from muster.api.core.references import ObjectReference
from muster.api.markers import ATOMIC, Int32, Required
from muster.api.meta import ObjectMeta, Struct


class EndpointAddress(Struct):
    """One place.

    ip: its address.
    hostname: its host name.
    node_name: the node that it is on.
    target_ref: the object that is there.
    """

    ip: Required[str] = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(Struct):
    """A port of all places.

    name: name of the service's port.
    port: the port.
    protocol: TCP, UDP or SCTP; TCP if empty.
    app_protocol: what is spoken on it.
    """

    name: str = ""
    port: Required[Int32] = 0
    protocol: str = ""
    app_protocol: str | None = None


class EndpointSubset(Struct):
    """Places that have the same ports.

    addresses: those that are ready.
    not_ready_addresses: those that are not.
    ports: their ports.
    """

    addresses: Annotated[tuple[EndpointAddress, ...], ATOMIC] = ()
    not_ready_addresses: Annotated[tuple[EndpointAddress, ...], ATOMIC] = ()
    ports: Annotated[tuple[EndpointPort, ...], ATOMIC] = ()


class Endpoints(Struct):
    """Where the service of the same name leads.

    metadata: what every object carries.
    subsets: the places.
    """

    metadata: ObjectMeta = ObjectMeta()
    subsets: Annotated[tuple[EndpointSubset, ...], ATOMIC] = ()
