# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The sources of volumes that need a storage system, for pods and for PersistentVolumes.

The two differ only in how they name a Secret: a pod's Secret is in the pod's namespace, a PersistentVolume's in
any namespace. Muster stores these sources and mounts none of them.
"""

from muster.api.core.references import LocalObjectReference
from muster.api.markers import Int32, Required
from muster.api.meta import Struct


class NFSVolumeSource(Struct):
    """A share of an NFS server."""

    server: Required[str] = ""
    path: Required[str] = ""
    read_only: bool = False


class GCEPersistentDiskVolumeSource(Struct):
    """A persistent disk of GCE."""

    pd_name: Required[str] = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Struct):
    """A disk of AWS."""

    volume_id: Required[str] = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class GitRepoVolumeSource(Struct):
    """A git repository; deprecated."""

    repository: Required[str] = ""
    revision: str = ""
    directory: str = ""


class ISCSIVolumeSource(Struct):
    """An iSCSI disk."""

    target_portal: Required[str] = ""
    iqn: Required[str] = ""
    lun: Required[Int32] = 0
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: bool = False
    portals: tuple[str, ...] = ()
    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    initiator_name: str | None = None
    secret_ref: LocalObjectReference | None = None


class GlusterfsVolumeSource(Struct):
    """A Glusterfs volume; removed upstream."""

    endpoints: Required[str] = ""
    path: Required[str] = ""
    read_only: bool = False


class RBDVolumeSource(Struct):
    """A Ceph block device; removed upstream."""

    monitors: Required[tuple[str, ...]] = ()
    image: Required[str] = ""
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class FlexVolumeSource(Struct):
    """Storage of a plugin on the node; deprecated."""

    driver: Required[str] = ""
    fs_type: str = ""
    read_only: bool = False
    options: dict[str, str] = {}
    secret_ref: LocalObjectReference | None = None


class CinderVolumeSource(Struct):
    """An OpenStack Cinder volume."""

    volume_id: Required[str] = ""
    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class CephFSVolumeSource(Struct):
    """A Ceph file system; removed upstream."""

    monitors: Required[tuple[str, ...]] = ()
    path: str = ""
    user: str = ""
    secret_file: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class FlockerVolumeSource(Struct):
    """A Flocker volume; deprecated."""

    dataset_name: str = ""
    dataset_uuid: str = ""


class FCVolumeSource(Struct):
    """A Fibre Channel disk."""

    target_wwns: tuple[str, ...] = ()
    lun: Int32 | None = None
    fs_type: str = ""
    read_only: bool = False
    wwids: tuple[str, ...] = ()


class AzureFileVolumeSource(Struct):
    """An Azure file share."""

    secret_name: Required[str] = ""
    share_name: Required[str] = ""
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Struct):
    """A vSphere disk."""

    volume_path: Required[str] = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = ""


class QuobyteVolumeSource(Struct):
    """A Quobyte volume; deprecated."""

    registry: Required[str] = ""
    volume: Required[str] = ""
    read_only: bool = False
    user: str = ""
    group: str = ""
    tenant: str = ""


class AzureDiskVolumeSource(Struct):
    """An Azure disk."""

    disk_name: Required[str] = ""
    disk_uri: Required[str] = ""
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class PhotonPersistentDiskVolumeSource(Struct):
    """A Photon disk; deprecated."""

    pd_id: Required[str] = ""
    fs_type: str = ""


class PortworxVolumeSource(Struct):
    """A Portworx volume."""

    volume_id: Required[str] = ""
    fs_type: str = ""
    read_only: bool = False


class ScaleIOVolumeSource(Struct):
    """A ScaleIO volume; deprecated."""

    gateway: Required[str] = ""
    system: Required[str] = ""
    ssl_enabled: bool = False
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: str = ""
    volume_name: str = ""
    fs_type: str = ""
    read_only: bool = False
    secret_ref: Required[LocalObjectReference | None] = None


class StorageOSVolumeSource(Struct):
    """A StorageOS volume; deprecated."""

    volume_name: str = ""
    volume_namespace: str = ""
    fs_type: str = ""
    read_only: bool = False
    secret_ref: LocalObjectReference | None = None


class CSIVolumeSource(Struct):
    """Storage of a CSI driver that ends with the pod."""

    driver: Required[str] = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = {}
    node_publish_secret_ref: LocalObjectReference | None = None
