# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`discovery.k8s.io/v1`: where services lead."""

from typing import Annotated

from muster.api.core.references import ObjectReference
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, SET, Int32, Required, one_of
from muster.api.meta import ObjectMeta, Struct


class EndpointConditions(Struct):
    """How a place does.

    ready: whether it takes traffic; so if absent.
    serving: whether it would, even if it is ending.
    terminating: whether it is ending.
    """

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForZone(Struct):
    """A zone whose traffic should come here.

    name: name of the zone.
    """

    name: Required[str] = ""


class ForNode(Struct):
    """A node whose traffic should come here.

    name: name of the node.
    """

    name: Required[str] = ""


class EndpointHints(Struct):
    """Whose traffic should come here.

    for_zones: zones.
    for_nodes: nodes.
    """

    for_zones: Annotated[tuple[ForZone, ...], ATOMIC] = ()
    for_nodes: Annotated[tuple[ForNode, ...], ATOMIC] = ()


class Endpoint(Struct):
    """One place where a service leads.

    addresses: its addresses, all of which lead to the same.
    conditions: how it does.
    hostname: its host name.
    target_ref: the object that is there.
    deprecated_topology: where it is, in the older form.
    node_name: the node that it is on.
    zone: the zone that it is in.
    hints: whose traffic should come here.
    """

    addresses: Required[Annotated[tuple[str, ...], SET]] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    deprecated_topology: dict[str, str] = {}
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(Struct):
    """A port of all places of a slice.

    name: name of the service's port.
    protocol: TCP, UDP or SCTP; TCP if absent.
    port: the port.
    app_protocol: what is spoken on it.
    """

    name: str | None = None
    protocol: str | None = None
    port: Int32 | None = None
    app_protocol: str | None = None


class EndpointSlice(Struct):
    """Some of the places where a service leads.

    metadata: what every object carries; label kubernetes.io/service-name names the service.
    address_type: IPv4, IPv6 or FQDN; never changes.
    endpoints: the places.
    ports: their ports.
    """

    metadata: ObjectMeta = ObjectMeta()
    address_type: Annotated[Required[str], one_of("FQDN", "IPv4", "IPv6")] = ""
    endpoints: Required[Annotated[tuple[Endpoint, ...], ATOMIC]] = ()
    ports: Annotated[tuple[EndpointPort, ...], ATOMIC] = ()


ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice)
