# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`storage.k8s.io/v1`: classes of storage, and what drivers of storage say. Nothing here acts on them."""

from datetime import datetime
from typing import Annotated

from muster.api.core.persistent import PersistentVolumeSpec, TopologySelectorTerm
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, SET, Int32, Required, Strings, merged_by, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.values.quantity import Quantity


class StorageClass(Struct):
    """A kind of storage that claims can ask for.

    metadata: what every object carries.
    provisioner: who makes the volumes.
    parameters: what the provisioner is told.
    reclaim_policy: Delete or Retain, once a volume's claim is gone.
    mount_options: how volumes are mounted.
    allow_volume_expansion: whether claims may grow.
    volume_binding_mode: Immediate, or WaitForFirstConsumer: when a claim is bound.
    allowed_topologies: where volumes may be.
    """

    metadata: ObjectMeta = ObjectMeta()
    provisioner: Required[str] = ""
    parameters: dict[str, str] = {}
    reclaim_policy: Annotated[str, one_of("Delete", "Recycle", "Retain")] | None = None
    mount_options: Strings = ()
    allow_volume_expansion: bool | None = None
    volume_binding_mode: Annotated[str, one_of("Immediate", "WaitForFirstConsumer")] | None = None
    allowed_topologies: Annotated[tuple[TopologySelectorTerm, ...], ATOMIC] = ()


class VolumeAttachmentSource(Struct):
    """The volume that is attached; exactly one.

    persistent_volume_name: a PersistentVolume.
    inline_volume_spec: a volume of a pod, as a PersistentVolume would have it.
    """

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Struct):
    """What is to be attached where.

    attacher: who attaches it.
    source: the volume.
    node_name: the node.
    """

    attacher: Required[str] = ""
    source: Required[VolumeAttachmentSource] = VolumeAttachmentSource()
    node_name: Required[str] = ""


class VolumeError(Struct):
    """What went wrong.

    time: when.
    message: a sentence.
    error_code: number of the error.
    """

    time: datetime | None = None
    message: str = ""
    error_code: Int32 | None = None


class VolumeAttachmentStatus(Struct):
    """What was observed of an attachment.

    attached: whether the volume is attached.
    attachment_metadata: what the attacher says to the node that mounts it.
    attach_error: what went wrong when it was attached.
    detach_error: what went wrong when it was detached.
    """

    attached: Required[bool] = False
    attachment_metadata: dict[str, str] = {}
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(Struct):
    """Asks for a volume to be attached to a node.

    metadata: what every object carries.
    spec: what is to be attached where.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[VolumeAttachmentSpec] = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


class TokenRequest(Struct):
    """A token of the pod's service account that a driver wants.

    audience: for whom the token is; the API server if empty.
    expiration_seconds: how long it is good.
    """

    audience: Required[str] = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(Struct):
    """What a driver can do and wants.

    attach_required: whether volumes are attached before they are mounted; so if absent.
    pod_info_on_mount: whether the driver is told of the pod.
    volume_lifecycle_modes: Persistent, Ephemeral or both.
    storage_capacity: whether the driver says how much room there is.
    fs_group_policy: ReadWriteOnceWithFSType, File or None: whether the owner of files is changed.
    token_requests: tokens of service accounts that it wants.
    requires_republish: whether it is called again and again.
    se_linux_mount: whether it mounts with an SELinux label.
    node_allocatable_update_period_seconds: how often a node's number of volumes is asked for.
    """

    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: Annotated[tuple[str, ...], SET] = ()
    storage_capacity: bool | None = None
    fs_group_policy: Annotated[str, one_of("File", "None", "ReadWriteOnceWithFSType")] | None = None
    token_requests: Annotated[tuple[TokenRequest, ...], ATOMIC] = ()
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    node_allocatable_update_period_seconds: int | None = None


class CSIDriver(Struct):
    """A driver of storage; its name is the driver's.

    metadata: what every object carries.
    spec: what it can do and wants.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[CSIDriverSpec] = CSIDriverSpec()


class VolumeNodeResources(Struct):
    """How many volumes a node can have.

    count: how many; no bound if absent.
    """

    count: Int32 | None = None


class CSINodeDriver(Struct):
    """A driver on a node.

    name: name of the driver.
    node_id: the driver's name for the node.
    topology_keys: labels of the node that say where it is.
    allocatable: how many volumes the node can have.
    """

    name: Required[str] = ""
    node_id: Required[str] = ""
    topology_keys: Strings = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct):
    """The drivers of a node.

    drivers: the drivers.
    """

    drivers: Required[Annotated[tuple[CSINodeDriver, ...], merged_by("name")]] = ()


class CSINode(Struct):
    """Which drivers a node has; its name is the node's.

    metadata: what every object carries.
    spec: the drivers.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[CSINodeSpec] = CSINodeSpec()


class CSIStorageCapacity(Struct):
    """How much room there is for volumes of a class, somewhere.

    metadata: what every object carries.
    node_topology: which nodes can reach the volumes; none if absent, all if empty.
    storage_class_name: the class.
    capacity: how much room there is.
    maximum_volume_size: the size of the largest volume.
    """

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: Required[str] = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttributesClass(Struct):
    """Changeable attributes of volumes that claims can ask for.

    metadata: what every object carries.
    driver_name: name of the driver.
    parameters: what the driver is told; never changes.
    """

    metadata: ObjectMeta = ObjectMeta()
    driver_name: Required[str] = ""
    parameters: dict[str, str] = {}


_GROUP = "storage.k8s.io"
STORAGE_CLASS = Kind(_GROUP, "v1", "StorageClass", "storageclasses", StorageClass, namespaced=False)
VOLUME_ATTACHMENT = Kind(_GROUP, "v1", "VolumeAttachment", "volumeattachments", VolumeAttachment, namespaced=False)
CSI_DRIVER = Kind(_GROUP, "v1", "CSIDriver", "csidrivers", CSIDriver, namespaced=False)
CSI_NODE = Kind(_GROUP, "v1", "CSINode", "csinodes", CSINode, namespaced=False)
CSI_STORAGE_CAPACITY = Kind(_GROUP, "v1", "CSIStorageCapacity", "csistoragecapacities", CSIStorageCapacity)
VOLUME_ATTRIBUTES_CLASS = Kind(
    _GROUP, "v1", "VolumeAttributesClass", "volumeattributesclasses", VolumeAttributesClass, namespaced=False
)
