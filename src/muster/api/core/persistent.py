# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The PersistentVolume: storage that outlives pods."""

from typing import Any, TypeAlias

from muster.api.core.references import ObjectReference
from muster.api.core.scheduling import NodeSelector
from muster.api.core.volumes import HostPathVolumeSource
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList

# A source that no node of Muster mounts. The rules check only which source is given and whether it changed.
_Source: TypeAlias = dict[str, Any] | None


class LocalVolumeSource(Struct):
    """A directory or a device of a node."""

    path: str = ""
    fs_type: str | None = None


class VolumeNodeAffinity(Struct):
    """The nodes that can access a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct):
    """The desired state of a volume. Exactly one source is set."""

    capacity: ResourceList = {}
    gce_persistent_disk: _Source = None
    aws_elastic_block_store: _Source = None
    host_path: HostPathVolumeSource | None = None
    glusterfs: _Source = None
    nfs: _Source = None
    rbd: _Source = None
    iscsi: _Source = None
    cinder: _Source = None
    cephfs: _Source = None
    fc: _Source = None
    flocker: _Source = None
    flex_volume: _Source = None
    azure_file: _Source = None
    vsphere_volume: _Source = None
    quobyte: _Source = None
    azure_disk: _Source = None
    photon_persistent_disk: _Source = None
    portworx_volume: _Source = None
    scale_io: _Source = None
    local: LocalVolumeSource | None = None
    storageos: _Source = None
    csi: _Source = None
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(Struct):
    """The observed state of a volume."""

    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(Struct):
    """Storage that outlives pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()
