"""Find an address at which a Service of the cluster can be reached.

Pods of process nodes have their own loopback addresses, so the server connects to one of the Service's pods directly.
The address of a Service without a selector comes from its Endpoints or EndpointSlices. A Service of type ExternalName
has its external name as its address.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.api.core import POD, SERVICE, Pod, Service, ServicePort
from muster.api.pods import is_ready
from muster.api.values.selectors import labels_matcher
from muster.cluster.apiserver.objects.documents import decode_entry
from muster.cluster.store import Key, Store

_SLICES = "endpointslices.discovery.k8s.io"
_ENDPOINTS = "endpoints"
_SERVICE_LABEL = "kubernetes.io/service-name"


class ServiceError(Exception):
    """A Service without an address. The message is kube-apiserver's."""


class SendError(Exception):
    """A body to which a webhook's server sent no response. The message says why."""


class Address(NamedTuple):
    """An address to connect to."""

    host: str
    port: int


def address_of(store: Store, namespace: str, name: str, port: int) -> Address:
    """Return an address at which a port of a Service can be reached. Raises `ServiceError` if there is none."""
    entry = store.get(Key(SERVICE.resource, namespace, name))
    if entry is None:
        raise ServiceError(f'service "{name}" not found')
    service = SERVICE.decode(entry.body)
    if service.spec.type == "ExternalName":
        return Address(service.spec.external_name, port)
    wanted = next((each for each in service.spec.ports if each.port == port), None)
    if wanted is None:
        raise ServiceError(f'no service port {port} found for service "{name}"')
    addresses = (
        _list_addresses_of_pods(store, namespace, service, wanted)
        if service.spec.selector
        else _list_addresses_of_endpoints(store, service, wanted)
    )
    address = next(addresses, None)
    if address is None:
        raise ServiceError(f'no endpoints available for service "{name}"')
    return address


def _list_addresses_of_pods(store: Store, namespace: str, service: Service, port: ServicePort) -> Iterator[Address]:
    matcher = labels_matcher(service.spec.selector)
    for entry in store.list(POD.resource, namespace).entries:
        if matcher.matches(entry.header.labels) and entry.header.fields.get("status.podIP"):
            pod = POD.decode(entry.body)
            number = _find_port_of_pod(pod, port)
            if number and is_ready(pod):
                yield Address(pod.status.pod_ip, number)


def _find_port_of_pod(pod: Pod, port: ServicePort) -> int:
    """Return the number of the pod's port that a port of a Service leads to; 0 if the pod has no port of that name."""
    target = port.target_port or port.port
    if isinstance(target, int):
        return target
    ports = (each for container in pod.spec.containers for each in container.ports)
    return next((each.container_port for each in ports if each.name == target), 0)


def _list_addresses_of_endpoints(store: Store, service: Service, port: ServicePort) -> Iterator[Address]:
    """Yield the addresses in the Endpoints and EndpointSlices of a service."""
    namespace, name = service.metadata.namespace, service.metadata.name
    for entry in store.list(_SLICES, namespace).entries:
        if entry.header.labels.get(_SERVICE_LABEL) == name:
            yield from _list_addresses_of_slice(decode_entry(entry), port)
    endpoints = store.get(Key(_ENDPOINTS, namespace, name))
    for subset in decode_entry(endpoints).get("subsets", ()) if endpoints is not None else ():
        for number in _list_matching_ports(subset.get("ports", ()), port):
            for address in subset.get("addresses", ()):
                yield Address(address["ip"], number)


def _list_addresses_of_slice(piece: dict[str, Any], port: ServicePort) -> Iterator[Address]:
    for number in _list_matching_ports(piece.get("ports", ()), port):
        for endpoint in piece.get("endpoints", ()):
            if endpoint.get("conditions", {}).get("ready", True):
                for address in endpoint.get("addresses", ()):
                    yield Address(address, number)


def _list_matching_ports(ports: Any, port: ServicePort) -> Iterator[int]:
    for each in ports:
        if each.get("name", "") == port.name and each.get("port"):
            yield each["port"]
