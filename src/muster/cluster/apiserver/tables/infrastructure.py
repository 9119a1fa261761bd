"""Columns and cells of kinds about networks, devices and the server itself."""

from datetime import datetime, timedelta

from muster.api import (
    core,
)
from muster.api.groups import (
    discovery,
    networking,
    resource,
    runtimeclass,
)
from muster.api.server import (
    apiregistration,
    certificates,
    flowcontrol,
)
from muster.cluster.apiserver.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Cells,
    Column,
    Printer,
    created,
    human_duration,
    selector_cell,
    text,
)

_SHOWN = 3  # of addresses and ports in one cell


def _first(items: list[str]) -> str:
    """A few of the items, and how many there are more."""
    if not items:
        return NONE
    more = len(items) - _SHOWN
    return f"{','.join(items[:_SHOWN])} + {more} more..." if more > 0 else ",".join(items)


def _network_policy(network_policy: networking.NetworkPolicy, now: datetime) -> Cells:
    meta = network_policy.metadata
    return [meta.name, selector_cell(network_policy.spec.pod_selector), created(meta, now)]


def _ingress(ingress: networking.Ingress, now: datetime) -> Cells:
    meta, spec = ingress.metadata, ingress.spec
    hosts = [rule.host for rule in spec.rules if rule.host]
    addresses = [place.ip or place.hostname for place in ingress.status.load_balancer.ingress]
    return [
        meta.name,
        spec.ingress_class_name or NONE,
        _first(hosts) if hosts else "*",
        ",".join(address for address in addresses if address),
        "80, 443" if spec.tls else "80",
        created(meta, now),
    ]


def _ingress_class(ingress_class: networking.IngressClass, now: datetime) -> Cells:
    meta, parameters = ingress_class.metadata, ingress_class.spec.parameters
    shown = NONE
    if parameters is not None:
        group = f".{parameters.api_group}" if parameters.api_group else ""
        shown = f"{parameters.kind}{group}/{parameters.name}"
    return [meta.name, ingress_class.spec.controller, shown, created(meta, now)]


def _endpoints(endpoints: core.Endpoints, now: datetime) -> Cells:
    places = [
        f"{address.ip}:{port.port}"
        for subset in endpoints.subsets
        for port in subset.ports
        for address in subset.addresses
    ]
    return [endpoints.metadata.name, _first(places), created(endpoints.metadata, now)]


def _endpoint_slice(endpoint_slice: discovery.EndpointSlice, now: datetime) -> Cells:
    meta = endpoint_slice.metadata
    ports = ["*" if port.port is None else str(port.port) for port in endpoint_slice.ports]
    addresses = [address for endpoint in endpoint_slice.endpoints for address in endpoint.addresses]
    ports_cell = _first(ports) if ports else UNSET
    return [
        meta.name,
        endpoint_slice.address_type,
        ports_cell,
        _first(addresses) if addresses else UNSET,
        created(meta, now),
    ]


def _ip_address(address: networking.IPAddress, now: datetime) -> Cells:
    parent = address.spec.parent_ref
    shown = NONE
    if parent is not None:
        resource_name = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
        shown = "/".join(filter(None, (resource_name, parent.namespace, parent.name)))
    return [address.metadata.name, shown, created(address.metadata, now)]


def _service_cidr(cidr: networking.ServiceCIDR, now: datetime) -> Cells:
    return [cidr.metadata.name, ",".join(cidr.spec.cidrs), created(cidr.metadata, now)]


def _runtime_class(runtime_class: runtimeclass.RuntimeClass, now: datetime) -> Cells:
    return [runtime_class.metadata.name, runtime_class.handler, created(runtime_class.metadata, now)]


def _signing_request(request: certificates.CertificateSigningRequest, now: datetime) -> Cells:
    meta, spec = request.metadata, request.spec
    duration = NONE
    if spec.expiration_seconds is not None:
        duration = human_duration(timedelta(seconds=spec.expiration_seconds))
    types = [condition.type for condition in request.status.conditions]
    words: list[str] = [word for word in ("Denied", "Approved", "Failed") if word in types] or ["Pending"]
    if request.status.certificate:
        words.append("Issued")
    return [meta.name, created(meta, now), spec.signer_name or NONE, spec.username, duration, ",".join(words)]


def _resource_claim(claim: resource.ResourceClaim, now: datetime) -> Cells:
    meta, status = claim.metadata, claim.status
    states = [
        word
        for word, holds in (
            ("deleted", meta.deletion_timestamp is not None),
            ("allocated", status.allocation is not None),
            ("reserved", bool(status.reserved_for)),
        )
        if holds
    ]
    return [meta.name, ",".join(states) or "pending", created(meta, now)]


def _resource_slice(resource_slice: resource.ResourceSlice, now: datetime) -> Cells:
    meta, spec = resource_slice.metadata, resource_slice.spec
    return [meta.name, spec.node_name or "", spec.driver, spec.pool.name, created(meta, now)]


def _named(obj: resource.ResourceClaimTemplate | resource.DeviceClass, now: datetime) -> Cells:
    return [obj.metadata.name, created(obj.metadata, now)]


def _flow_schema(flow_schema: flowcontrol.FlowSchema, now: datetime) -> Cells:
    meta, spec = flow_schema.metadata, flow_schema.spec
    dangling = next((c.status for c in flow_schema.status.conditions if c.type == "Dangling"), "?")
    return [
        meta.name,
        spec.priority_level_configuration.name,
        spec.matching_precedence,
        spec.distinguisher_method.type if spec.distinguisher_method else NONE,
        created(meta, now),
        dangling,
    ]


def _priority_level(level: flowcontrol.PriorityLevelConfiguration, now: datetime) -> Cells:
    spec = level.spec
    shares: int | str = NONE
    queuing = None
    if spec.limited is not None:
        shares = spec.limited.nominal_concurrency_shares or 0
        queuing = spec.limited.limit_response.queuing
    numbers = (queuing.queues, queuing.hand_size, queuing.queue_length_limit) if queuing else (NONE, NONE, NONE)
    return [level.metadata.name, spec.type, shares, *numbers, created(level.metadata, now)]


def _api_service(api_service: apiregistration.APIService, now: datetime) -> Cells:
    service = api_service.spec.service
    where = f"{service.namespace}/{service.name}" if service else "Local"
    condition = next((c for c in api_service.status.conditions if c.type == "Available"), None)
    available = "Unknown" if condition is None else condition.status
    if condition is not None and condition.status != "True":
        available = f"{available} ({condition.reason})"
    return [api_service.metadata.name, where, available, created(api_service.metadata, now)]


INFRASTRUCTURE = {
    networking.NETWORK_POLICY.resource: Printer(
        (NAME, text("Pod-Selector", "The pods that it is about."), AGE), _network_policy
    ),
    networking.INGRESS.resource: Printer(
        (
            NAME,
            text("Class", "Who serves it."),
            text("Hosts", "Names that it is for."),
            text("Address", "Where it takes traffic."),
            text("Ports", "On which ports."),
            AGE,
        ),
        _ingress,
    ),
    networking.INGRESS_CLASS.resource: Printer(
        (
            NAME,
            text("Controller", "Who serves it."),
            text("Parameters", "The object with settings."),
            AGE,
        ),
        _ingress_class,
    ),
    networking.IP_ADDRESS.resource: Printer((NAME, text("ParentRef", "Whose it is."), AGE), _ip_address),
    networking.SERVICE_CIDR.resource: Printer((NAME, text("CIDRs", "The ranges."), AGE), _service_cidr),
    core.ENDPOINTS.resource: Printer((NAME, text("Endpoints", "Where the service leads."), AGE), _endpoints),
    discovery.ENDPOINT_SLICE.resource: Printer(
        (
            NAME,
            text("AddressType", "IPv4, IPv6 or FQDN."),
            text("Ports", "Ports of the places."),
            text("Endpoints", "Addresses of the places."),
            AGE,
        ),
        _endpoint_slice,
    ),
    runtimeclass.RUNTIME_CLASS.resource: Printer(
        (NAME, text("Handler", "Name of the way on the nodes."), AGE), _runtime_class
    ),
    certificates.CERTIFICATE_SIGNING_REQUEST.resource: Printer(
        (
            NAME,
            AGE,
            text("SignerName", "Who is to sign it."),
            text("Requestor", "Who asks."),
            text("RequestedDuration", "How long it should be good."),
            text("Condition", "What has become of it."),
        ),
        _signing_request,
    ),
    resource.RESOURCE_CLAIM.resource: Printer((NAME, text("State", "What has become of it."), AGE), _resource_claim),
    resource.RESOURCE_CLAIM_TEMPLATE.resource: Printer((NAME, AGE), _named),
    resource.DEVICE_CLASS.resource: Printer((NAME, AGE), _named),
    resource.RESOURCE_SLICE.resource: Printer(
        (
            NAME,
            text("Node", "The node that the devices are on."),
            text("Driver", "Name of the driver."),
            text("Pool", "Name of the pool."),
            AGE,
        ),
        _resource_slice,
    ),
    flowcontrol.FLOW_SCHEMA.resource: Printer(
        (
            NAME,
            text("PriorityLevel", "The priority level."),
            Column(name="MatchingPrecedence", type="integer", description="The least decides."),
            text("DistinguisherMethod", "What tells flows apart."),
            AGE,
            text("MissingPL", "Whether the priority level is missing."),
        ),
        _flow_schema,
    ),
    flowcontrol.PRIORITY_LEVEL_CONFIGURATION.resource: Printer(
        (
            NAME,
            text("Type", "Limited or Exempt."),
            text("NominalConcurrencyShares", "Its share of the server."),
            text("Queues", "Number of queues."),
            text("HandSize", "How many of them a flow may use."),
            text("QueueLengthLimit", "How many requests wait in one."),
            AGE,
        ),
        _priority_level,
    ),
    apiregistration.API_SERVICE.resource: Printer(
        (
            NAME,
            text("Service", "Who serves it."),
            text("Available", "Whether that one answers."),
            AGE,
        ),
        _api_service,
    ),
}
