"""Columns and cells of kinds about networks, storage and devices."""

from datetime import datetime, timedelta

from muster.api import (
    apiregistration,
    certificates,
    core,
    discovery,
    flowcontrol,
    networking,
    resource,
    runtimeclass,
    storage,
)
from muster.api.meta import ObjectMeta
from muster.api.quantity import ResourceList
from muster.cluster.apiserver.tables.printer import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Printer,
    age,
    human_duration,
    selector_cell,
    wide,
)

_UNSET = "<unset>"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SHOWN = 3  # of addresses and ports in one cell
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _text(name: str, description: str) -> Column:
    return Column(name=name, description=description)


def _created(meta: ObjectMeta, now: datetime) -> str:
    return age(meta.creation_timestamp, now)


def _first(items: list[str]) -> str:
    """A few of the items, and how many there are more."""
    if not items:
        return NONE
    more = len(items) - _SHOWN
    return f"{','.join(items[:_SHOWN])} + {more} more..." if more > 0 else ",".join(items)


def _network_policy(network_policy: networking.NetworkPolicy, now: datetime) -> Cells:
    meta = network_policy.metadata
    return [meta.name, selector_cell(network_policy.spec.pod_selector), _created(meta, now)]


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
        _created(meta, now),
    ]


def _ingress_class(ingress_class: networking.IngressClass, now: datetime) -> Cells:
    meta, parameters = ingress_class.metadata, ingress_class.spec.parameters
    shown = NONE
    if parameters is not None:
        group = f".{parameters.api_group}" if parameters.api_group else ""
        shown = f"{parameters.kind}{group}/{parameters.name}"
    return [meta.name, ingress_class.spec.controller, shown, _created(meta, now)]


def _endpoints(endpoints: core.Endpoints, now: datetime) -> Cells:
    places = [
        f"{address.ip}:{port.port}"
        for subset in endpoints.subsets
        for port in subset.ports
        for address in subset.addresses
    ]
    return [endpoints.metadata.name, _first(places), _created(endpoints.metadata, now)]


def _endpoint_slice(endpoint_slice: discovery.EndpointSlice, now: datetime) -> Cells:
    meta = endpoint_slice.metadata
    ports = ["*" if port.port is None else str(port.port) for port in endpoint_slice.ports]
    addresses = [address for endpoint in endpoint_slice.endpoints for address in endpoint.addresses]
    ports_cell = _first(ports) if ports else _UNSET
    return [
        meta.name,
        endpoint_slice.address_type,
        ports_cell,
        _first(addresses) if addresses else _UNSET,
        _created(meta, now),
    ]


def _ip_address(address: networking.IPAddress, now: datetime) -> Cells:
    parent = address.spec.parent_ref
    shown = NONE
    if parent is not None:
        resource_name = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
        shown = "/".join(filter(None, (resource_name, parent.namespace, parent.name)))
    return [address.metadata.name, shown, _created(address.metadata, now)]


def _service_cidr(cidr: networking.ServiceCIDR, now: datetime) -> Cells:
    return [cidr.metadata.name, ",".join(cidr.spec.cidrs), _created(cidr.metadata, now)]


def _modes(modes: tuple[str, ...]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _storage(amounts: ResourceList) -> str:
    return str(amounts["storage"]) if "storage" in amounts else ""


def _phase(phase: str, meta: ObjectMeta) -> str:
    return "Terminating" if meta.deletion_timestamp else phase


def _claim(claim: core.PersistentVolumeClaim, now: datetime) -> Cells:
    meta, spec, status = claim.metadata, claim.spec, claim.status
    bound = bool(spec.volume_name)
    return [
        meta.name,
        _phase(status.phase, meta),
        spec.volume_name,
        _storage(status.capacity) if bound else "",
        _modes(status.access_modes) if bound else "",
        spec.storage_class_name or "",
        spec.volume_attributes_class_name or _UNSET,
        _created(meta, now),
        spec.volume_mode or _UNSET,
    ]


def _volume(volume: core.PersistentVolume, now: datetime) -> Cells:
    meta, spec, status = volume.metadata, volume.spec, volume.status
    claim = f"{spec.claim_ref.namespace}/{spec.claim_ref.name}" if spec.claim_ref else ""
    return [
        meta.name,
        _storage(spec.capacity),
        _modes(spec.access_modes),
        spec.persistent_volume_reclaim_policy,
        _phase(status.phase, meta),
        claim,
        spec.storage_class_name,
        spec.volume_attributes_class_name or _UNSET,
        status.reason,
        _created(meta, now),
        spec.volume_mode or _UNSET,
    ]


def _storage_class(storage_class: storage.StorageClass, now: datetime) -> Cells:
    meta = storage_class.metadata
    default = " (default)" if meta.annotations.get(_DEFAULT_CLASS) == "true" else ""
    return [
        meta.name + default,
        storage_class.provisioner,
        storage_class.reclaim_policy or "Delete",
        storage_class.volume_binding_mode or "Immediate",
        bool(storage_class.allow_volume_expansion),
        _created(meta, now),
    ]


def _attachment(attachment: storage.VolumeAttachment, now: datetime) -> Cells:
    meta, spec = attachment.metadata, attachment.spec
    return [
        meta.name,
        spec.attacher,
        spec.source.persistent_volume_name or "",
        spec.node_name,
        attachment.status.attached,
        _created(meta, now),
    ]


def _csi_driver(driver: storage.CSIDriver, now: datetime) -> Cells:
    meta, spec = driver.metadata, driver.spec
    tokens = ",".join(token.audience for token in spec.token_requests) or _UNSET
    return [
        meta.name,
        spec.attach_required is not False,
        bool(spec.pod_info_on_mount),
        bool(spec.storage_capacity),
        tokens,
        bool(spec.requires_republish),
        ",".join(spec.volume_lifecycle_modes) or NONE,
        _created(meta, now),
    ]


def _csi_node(node: storage.CSINode, now: datetime) -> Cells:
    return [node.metadata.name, len(node.spec.drivers), _created(node.metadata, now)]


def _capacity(capacity: storage.CSIStorageCapacity, _now: datetime) -> Cells:
    amount = _UNSET if capacity.capacity is None else str(capacity.capacity)
    return [capacity.metadata.name, capacity.storage_class_name, amount]


def _attributes(attributes: storage.VolumeAttributesClass, now: datetime) -> Cells:
    return [attributes.metadata.name, attributes.driver_name, _created(attributes.metadata, now)]


def _runtime_class(runtime_class: runtimeclass.RuntimeClass, now: datetime) -> Cells:
    return [runtime_class.metadata.name, runtime_class.handler, _created(runtime_class.metadata, now)]


def _signing_request(request: certificates.CertificateSigningRequest, now: datetime) -> Cells:
    meta, spec = request.metadata, request.spec
    duration = NONE
    if spec.expiration_seconds is not None:
        duration = human_duration(timedelta(seconds=spec.expiration_seconds))
    types = [condition.type for condition in request.status.conditions]
    words: list[str] = [word for word in ("Denied", "Approved", "Failed") if word in types] or ["Pending"]
    if request.status.certificate:
        words.append("Issued")
    return [meta.name, _created(meta, now), spec.signer_name or NONE, spec.username, duration, ",".join(words)]


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
    return [meta.name, ",".join(states) or "pending", _created(meta, now)]


def _resource_slice(resource_slice: resource.ResourceSlice, now: datetime) -> Cells:
    meta, spec = resource_slice.metadata, resource_slice.spec
    return [meta.name, spec.node_name or "", spec.driver, spec.pool.name, _created(meta, now)]


def _named(obj: resource.ResourceClaimTemplate | resource.DeviceClass, now: datetime) -> Cells:
    return [obj.metadata.name, _created(obj.metadata, now)]


def _flow_schema(flow_schema: flowcontrol.FlowSchema, now: datetime) -> Cells:
    meta, spec = flow_schema.metadata, flow_schema.spec
    dangling = next((c.status for c in flow_schema.status.conditions if c.type == "Dangling"), "?")
    return [
        meta.name,
        spec.priority_level_configuration.name,
        spec.matching_precedence,
        spec.distinguisher_method.type if spec.distinguisher_method else NONE,
        _created(meta, now),
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
    return [level.metadata.name, spec.type, shares, *numbers, _created(level.metadata, now)]


def _api_service(api_service: apiregistration.APIService, now: datetime) -> Cells:
    service = api_service.spec.service
    where = f"{service.namespace}/{service.name}" if service else "Local"
    condition = next((c for c in api_service.status.conditions if c.type == "Available"), None)
    available = "Unknown" if condition is None else condition.status
    if condition is not None and condition.status != "True":
        available = f"{available} ({condition.reason})"
    return [api_service.metadata.name, where, available, _created(api_service.metadata, now)]


INFRASTRUCTURE = {
    networking.NETWORK_POLICY.resource: Printer(
        (NAME, _text("Pod-Selector", "The pods that it is about."), AGE), _network_policy
    ),
    networking.INGRESS.resource: Printer(
        (
            NAME,
            _text("Class", "Who serves it."),
            _text("Hosts", "Names that it is for."),
            _text("Address", "Where it takes traffic."),
            _text("Ports", "On which ports."),
            AGE,
        ),
        _ingress,
    ),
    networking.INGRESS_CLASS.resource: Printer(
        (
            NAME,
            _text("Controller", "Who serves it."),
            _text("Parameters", "The object with settings."),
            AGE,
        ),
        _ingress_class,
    ),
    networking.IP_ADDRESS.resource: Printer((NAME, _text("ParentRef", "Whose it is."), AGE), _ip_address),
    networking.SERVICE_CIDR.resource: Printer((NAME, _text("CIDRs", "The ranges."), AGE), _service_cidr),
    core.ENDPOINTS.resource: Printer((NAME, _text("Endpoints", "Where the service leads."), AGE), _endpoints),
    discovery.ENDPOINT_SLICE.resource: Printer(
        (
            NAME,
            _text("AddressType", "IPv4, IPv6 or FQDN."),
            _text("Ports", "Ports of the places."),
            _text("Endpoints", "Addresses of the places."),
            AGE,
        ),
        _endpoint_slice,
    ),
    core.PERSISTENT_VOLUME_CLAIM.resource: Printer(
        (
            NAME,
            _text("Status", "Pending, Bound or Lost."),
            _text("Volume", "The volume that is bound."),
            _text("Capacity", "What the volume has."),
            _text("Access Modes", "What the volume allows."),
            _text("StorageClass", "The class of storage."),
            _text("VolumeAttributesClass", "The class of changeable attributes."),
            AGE,
            wide("VolumeMode", "Filesystem or Block."),
        ),
        _claim,
    ),
    core.PERSISTENT_VOLUME.resource: Printer(
        (
            NAME,
            _text("Capacity", "What it has."),
            _text("Access Modes", "Ways in which it can be mounted."),
            _text("Reclaim Policy", "What becomes of it once its claim is gone."),
            _text("Status", "Available, Bound, Released, ..."),
            _text("Claim", "The claim that it is bound to."),
            _text("StorageClass", "The class that it is of."),
            _text("VolumeAttributesClass", "The class of its changeable attributes."),
            _text("Reason", "One word for its status."),
            AGE,
            wide("VolumeMode", "Filesystem or Block."),
        ),
        _volume,
    ),
    storage.STORAGE_CLASS.resource: Printer(
        (
            NAME,
            _text("Provisioner", "Who makes the volumes."),
            _text("ReclaimPolicy", "What becomes of a volume once its claim is gone."),
            _text("VolumeBindingMode", "When a claim is bound."),
            _text("AllowVolumeExpansion", "Whether claims may grow."),
            AGE,
        ),
        _storage_class,
    ),
    storage.VOLUME_ATTACHMENT.resource: Printer(
        (
            NAME,
            _text("Attacher", "Who attaches it."),
            _text("PV", "The volume."),
            _text("Node", "The node."),
            _text("Attached", "Whether it is attached."),
            AGE,
        ),
        _attachment,
    ),
    storage.CSI_DRIVER.resource: Printer(
        (
            NAME,
            Column(name="AttachRequired", type="boolean", description="Whether volumes are attached."),
            Column(name="PodInfoOnMount", type="boolean", description="Whether it is told of the pod."),
            Column(name="StorageCapacity", type="boolean", description="Whether it says how much room there is."),
            _text("TokenRequests", "Tokens that it wants."),
            Column(name="RequiresRepublish", type="boolean", description="Whether it is called again and again."),
            _text("Modes", "Persistent, Ephemeral or both."),
            AGE,
        ),
        _csi_driver,
    ),
    storage.CSI_NODE.resource: Printer(
        (NAME, Column(name="Drivers", type="integer", description="How many drivers it has."), AGE), _csi_node
    ),
    storage.CSI_STORAGE_CAPACITY.resource: Printer(
        (NAME, _text("StorageClassName", "The class."), _text("Capacity", "How much room there is.")), _capacity
    ),
    storage.VOLUME_ATTRIBUTES_CLASS.resource: Printer(
        (NAME, _text("DriverName", "Name of the driver."), AGE), _attributes
    ),
    runtimeclass.RUNTIME_CLASS.resource: Printer(
        (NAME, _text("Handler", "Name of the way on the nodes."), AGE), _runtime_class
    ),
    certificates.CERTIFICATE_SIGNING_REQUEST.resource: Printer(
        (
            NAME,
            AGE,
            _text("SignerName", "Who is to sign it."),
            _text("Requestor", "Who asks."),
            _text("RequestedDuration", "How long it should be good."),
            _text("Condition", "What has become of it."),
        ),
        _signing_request,
    ),
    resource.RESOURCE_CLAIM.resource: Printer((NAME, _text("State", "What has become of it."), AGE), _resource_claim),
    resource.RESOURCE_CLAIM_TEMPLATE.resource: Printer((NAME, AGE), _named),
    resource.DEVICE_CLASS.resource: Printer((NAME, AGE), _named),
    resource.RESOURCE_SLICE.resource: Printer(
        (
            NAME,
            _text("Node", "The node that the devices are on."),
            _text("Driver", "Name of the driver."),
            _text("Pool", "Name of the pool."),
            AGE,
        ),
        _resource_slice,
    ),
    flowcontrol.FLOW_SCHEMA.resource: Printer(
        (
            NAME,
            _text("PriorityLevel", "The priority level."),
            Column(name="MatchingPrecedence", type="integer", description="The least decides."),
            _text("DistinguisherMethod", "What tells flows apart."),
            AGE,
            _text("MissingPL", "Whether the priority level is missing."),
        ),
        _flow_schema,
    ),
    flowcontrol.PRIORITY_LEVEL_CONFIGURATION.resource: Printer(
        (
            NAME,
            _text("Type", "Limited or Exempt."),
            _text("NominalConcurrencyShares", "Its share of the server."),
            _text("Queues", "Number of queues."),
            _text("HandSize", "How many of them a flow may use."),
            _text("QueueLengthLimit", "How many requests wait in one."),
            AGE,
        ),
        _priority_level,
    ),
    apiregistration.API_SERVICE.resource: Printer(
        (
            NAME,
            _text("Service", "Who serves it."),
            _text("Available", "Whether that one answers."),
            AGE,
        ),
        _api_service,
    ),
}
