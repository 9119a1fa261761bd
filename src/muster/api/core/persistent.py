# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Storage that outlives pods, as it is there."""

from datetime import datetime
from typing import Annotated

from muster.api.core import sources
from muster.api.core.references import ObjectReference
from muster.api.core.scheduling import NodeSelector
from muster.api.core.volumes import HostPathVolumeSource
from muster.api.markers import ATOMIC, GRANULAR_MAP, Required, Strings, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class VolumeNodeAffinity(Struct):
    """From which nodes a volume can be reached.

    required: the nodes.
    """

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct):
    """What a volume is; exactly one source.

    capacity: what it has.
    gce_persistent_disk: a persistent disk of GCE.
    aws_elastic_block_store: a disk of AWS.
    host_path: a directory of the node, for tests on one node.
    glusterfs: a Glusterfs volume; removed upstream.
    nfs: a share of an NFS server.
    rbd: a Ceph block device; removed upstream.
    iscsi: an iSCSI disk.
    cinder: an OpenStack Cinder volume.
    cephfs: a Ceph file system; removed upstream.
    fc: a Fibre Channel disk.
    flocker: a Flocker volume; deprecated.
    flex_volume: storage of a plugin on the node; deprecated.
    azure_file: an Azure file share.
    vsphere_volume: a vSphere disk.
    quobyte: a Quobyte volume; deprecated.
    azure_disk: an Azure disk.
    photon_persistent_disk: a Photon disk; deprecated.
    portworx_volume: a Portworx volume.
    scale_io: a ScaleIO volume; deprecated.
    local: a disk or directory of one node.
    storageos: a StorageOS volume; deprecated.
    csi: storage of a CSI driver.
    access_modes: ways in which it can be mounted.
    claim_ref: the claim that it is bound to.
    persistent_volume_reclaim_policy: Retain, Delete or Recycle, once its claim is gone.
    storage_class_name: the class that it is of.
    mount_options: how it is mounted.
    volume_mode: Filesystem or Block.
    node_affinity: from which nodes it can be reached.
    volume_attributes_class_name: the class of its changeable attributes.
    """

    capacity: ResourceList = {}
    gce_persistent_disk: sources.GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: sources.AWSElasticBlockStoreVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    glusterfs: sources.GlusterfsPersistentVolumeSource | None = None
    nfs: sources.NFSVolumeSource | None = None
    rbd: sources.RBDPersistentVolumeSource | None = None
    iscsi: sources.ISCSIPersistentVolumeSource | None = None
    cinder: sources.CinderPersistentVolumeSource | None = None
    cephfs: sources.CephFSPersistentVolumeSource | None = None
    fc: sources.FCVolumeSource | None = None
    flocker: sources.FlockerVolumeSource | None = None
    flex_volume: sources.FlexPersistentVolumeSource | None = None
    azure_file: sources.AzureFilePersistentVolumeSource | None = None
    vsphere_volume: sources.VsphereVirtualDiskVolumeSource | None = None
    quobyte: sources.QuobyteVolumeSource | None = None
    azure_disk: sources.AzureDiskVolumeSource | None = None
    photon_persistent_disk: sources.PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: sources.PortworxVolumeSource | None = None
    scale_io: sources.ScaleIOPersistentVolumeSource | None = None
    local: sources.LocalVolumeSource | None = None
    storageos: sources.StorageOSPersistentVolumeSource | None = None
    csi: sources.CSIPersistentVolumeSource | None = None
    access_modes: Strings = ()
    claim_ref: Annotated[ObjectReference, GRANULAR_MAP] | None = None
    persistent_volume_reclaim_policy: Annotated[str, one_of("Delete", "Recycle", "Retain")] = ""
    storage_class_name: str = ""
    mount_options: Strings = ()
    volume_mode: Annotated[str, one_of("Block", "Filesystem")] | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(Struct):
    """What was observed of a volume.

    phase: Pending, Available, Bound, Released or Failed.
    message: a sentence on why.
    reason: one word for it.
    last_phase_transition_time: when the phase last changed.
    """

    phase: Annotated[str, one_of("Available", "Bound", "Failed", "Pending", "Released")] = ""
    message: str = ""
    reason: str = ""
    last_phase_transition_time: datetime | None = None


class PersistentVolume(Struct):
    """Storage that outlives pods.

    metadata: what every object carries.
    spec: what it is.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Struct):
    """One requirement on a label of a place.

    key: the label.
    values: its values; any of them.
    """

    key: Required[str] = ""
    values: Required[Strings] = ()


class TopologySelectorTerm(Struct):
    """Requirements on a place, which must all hold.

    match_label_expressions: the requirements.
    """

    match_label_expressions: Annotated[tuple[TopologySelectorLabelRequirement, ...], ATOMIC] = ()
