"""Columns and cells of kinds about storage."""

from datetime import datetime

from muster.api import core
from muster.api.groups import storage
from muster.api.meta import ObjectMeta
from muster.api.values.quantity import ResourceList
from muster.cluster.apiserver.tables.printer import AGE, NAME, NONE, UNSET, Cells, Column, Printer, created, text, wide

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


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
        spec.volume_attributes_class_name or UNSET,
        created(meta, now),
        spec.volume_mode or UNSET,
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
        spec.volume_attributes_class_name or UNSET,
        status.reason,
        created(meta, now),
        spec.volume_mode or UNSET,
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
        created(meta, now),
    ]


def _attachment(attachment: storage.VolumeAttachment, now: datetime) -> Cells:
    meta, spec = attachment.metadata, attachment.spec
    return [
        meta.name,
        spec.attacher,
        spec.source.persistent_volume_name or "",
        spec.node_name,
        attachment.status.attached,
        created(meta, now),
    ]


def _csi_driver(driver: storage.CSIDriver, now: datetime) -> Cells:
    meta, spec = driver.metadata, driver.spec
    tokens = ",".join(token.audience for token in spec.token_requests) or UNSET
    return [
        meta.name,
        spec.attach_required is not False,
        bool(spec.pod_info_on_mount),
        bool(spec.storage_capacity),
        tokens,
        bool(spec.requires_republish),
        ",".join(spec.volume_lifecycle_modes) or NONE,
        created(meta, now),
    ]


def _csi_node(node: storage.CSINode, now: datetime) -> Cells:
    return [node.metadata.name, len(node.spec.drivers), created(node.metadata, now)]


def _capacity(capacity: storage.CSIStorageCapacity, _now: datetime) -> Cells:
    amount = UNSET if capacity.capacity is None else str(capacity.capacity)
    return [capacity.metadata.name, capacity.storage_class_name, amount]


def _attributes(attributes: storage.VolumeAttributesClass, now: datetime) -> Cells:
    return [attributes.metadata.name, attributes.driver_name, created(attributes.metadata, now)]


STORAGE = {
    core.PERSISTENT_VOLUME_CLAIM.resource: Printer(
        (
            NAME,
            text("Status", "Pending, Bound or Lost."),
            text("Volume", "The volume that is bound."),
            text("Capacity", "What the volume has."),
            text("Access Modes", "What the volume allows."),
            text("StorageClass", "The class of storage."),
            text("VolumeAttributesClass", "The class of changeable attributes."),
            AGE,
            wide("VolumeMode", "Filesystem or Block."),
        ),
        _claim,
    ),
    core.PERSISTENT_VOLUME.resource: Printer(
        (
            NAME,
            text("Capacity", "What it has."),
            text("Access Modes", "Ways in which it can be mounted."),
            text("Reclaim Policy", "What becomes of it once its claim is gone."),
            text("Status", "Available, Bound, Released, ..."),
            text("Claim", "The claim that it is bound to."),
            text("StorageClass", "The class that it is of."),
            text("VolumeAttributesClass", "The class of its changeable attributes."),
            text("Reason", "One word for its status."),
            AGE,
            wide("VolumeMode", "Filesystem or Block."),
        ),
        _volume,
    ),
    storage.STORAGE_CLASS.resource: Printer(
        (
            NAME,
            text("Provisioner", "Who makes the volumes."),
            text("ReclaimPolicy", "What becomes of a volume once its claim is gone."),
            text("VolumeBindingMode", "When a claim is bound."),
            text("AllowVolumeExpansion", "Whether claims may grow."),
            AGE,
        ),
        _storage_class,
    ),
    storage.VOLUME_ATTACHMENT.resource: Printer(
        (
            NAME,
            text("Attacher", "Who attaches it."),
            text("PV", "The volume."),
            text("Node", "The node."),
            text("Attached", "Whether it is attached."),
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
            text("TokenRequests", "Tokens that it wants."),
            Column(name="RequiresRepublish", type="boolean", description="Whether it is called again and again."),
            text("Modes", "Persistent, Ephemeral or both."),
            AGE,
        ),
        _csi_driver,
    ),
    storage.CSI_NODE.resource: Printer(
        (NAME, Column(name="Drivers", type="integer", description="How many drivers it has."), AGE), _csi_node
    ),
    storage.CSI_STORAGE_CAPACITY.resource: Printer(
        (NAME, text("StorageClassName", "The class."), text("Capacity", "How much room there is.")), _capacity
    ),
    storage.VOLUME_ATTRIBUTES_CLASS.resource: Printer(
        (NAME, text("DriverName", "Name of the driver."), AGE), _attributes
    ),
}
