# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Sources of volumes that need a storage system of their own, for pods and for PersistentVolumes.

Where the two differ, it is in how they name a secret: a pod's is in its namespace, a PersistentVolume's in any.
Nothing here mounts them: they are kept as they were written.
"""

from typing import Annotated

from muster.api.core.references import LocalObjectReference, ObjectReference, SecretReference
from muster.api.markers import Default, Int32, Required, Strings
from muster.api.meta import Struct


class NFSVolumeSource(Struct):
    """A share of an NFS server.

    server: name or address of the server.
    path: path on the server.
    read_only: whether writing is refused.
    """

    server: Required[str] = ""
    path: Required[str] = ""
    read_only: bool = False


class GCEPersistentDiskVolumeSource(Struct):
    """A persistent disk of GCE.

    pd_name: name of the disk.
    fs_type: its file system.
    partition: which partition; the whole disk if 0.
    read_only: whether writing is refused.
    """

    pd_name: Required[str] = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Struct):
    """A disk of AWS.

    volume_id: id of the disk.
    fs_type: its file system.
    partition: which partition; the whole disk if 0.
    read_only: whether writing is refused.
    """

    volume_id: Required[str] = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class GitRepoVolumeSource(Struct):
    """A git repository; deprecated.

    repository: its URL.
    revision: the commit.
    directory: the directory that it is cloned into.
    """

    repository: Required[str] = ""
    revision: str = ""
    directory: str = ""


class _ISCSI(Struct):
    """An iSCSI disk.

    target_portal: address and port of the target.
    iqn: qualified name of the target.
    lun: number of the disk.
    iscsi_interface: name of the interface.
    fs_type: its file system.
    read_only: whether writing is refused.
    portals: further addresses of the target.
    chap_auth_discovery: whether discovery authenticates by CHAP.
    chap_auth_session: whether sessions authenticate by CHAP.
    initiator_name: qualified name of the initiator.
    """

    target_portal: Required[str] = ""
    iqn: Required[str] = ""
    lun: Required[Int32] = 0
    iscsi_interface: Annotated[str, Default("default")] = ""
    fs_type: str = ""
    read_only: bool = False
    portals: Strings = ()
    chap_auth_discovery: bool = False
    chap_auth_session: bool = False
    initiator_name: str | None = None


class ISCSIVolumeSource(_ISCSI):
    """An iSCSI disk.

    secret_ref: credentials.
    """

    secret_ref: LocalObjectReference | None = None


class ISCSIPersistentVolumeSource(_ISCSI):
    """An iSCSI disk.

    secret_ref: credentials.
    """

    secret_ref: SecretReference | None = None


class GlusterfsVolumeSource(Struct):
    """A Glusterfs volume; removed upstream.

    endpoints: name of the Endpoints of the servers.
    path: path of the volume.
    read_only: whether writing is refused.
    """

    endpoints: Required[str] = ""
    path: Required[str] = ""
    read_only: bool = False


class GlusterfsPersistentVolumeSource(GlusterfsVolumeSource):
    """A Glusterfs volume; removed upstream.

    endpoints_namespace: namespace of the Endpoints; the claim's if absent.
    """

    endpoints_namespace: str | None = None


class _RBD(Struct):
    """A Ceph block device; removed upstream.

    monitors: addresses of the monitors.
    image: name of the image.
    fs_type: its file system.
    pool: name of the pool.
    user: name of the user.
    keyring: path of the key ring.
    read_only: whether writing is refused.
    """

    monitors: Required[Strings] = ()
    image: Required[str] = ""
    fs_type: str = ""
    pool: Annotated[str, Default("rbd")] = ""
    user: Annotated[str, Default("admin")] = ""
    keyring: Annotated[str, Default("/etc/ceph/keyring")] = ""
    read_only: bool = False


class RBDVolumeSource(_RBD):
    """A Ceph block device; removed upstream.

    secret_ref: credentials.
    """

    secret_ref: LocalObjectReference | None = None


class RBDPersistentVolumeSource(_RBD):
    """A Ceph block device; removed upstream.

    secret_ref: credentials.
    """

    secret_ref: SecretReference | None = None


class _Flex(Struct):
    """Storage of a plugin on the node; deprecated.

    driver: name of the plugin.
    fs_type: its file system.
    read_only: whether writing is refused.
    options: what the plugin is told.
    """

    driver: Required[str] = ""
    fs_type: str = ""
    read_only: bool = False
    options: dict[str, str] = {}


class FlexVolumeSource(_Flex):
    """Storage of a plugin on the node; deprecated.

    secret_ref: credentials.
    """

    secret_ref: LocalObjectReference | None = None


class FlexPersistentVolumeSource(_Flex):
    """Storage of a plugin on the node; deprecated.

    secret_ref: credentials.
    """

    secret_ref: SecretReference | None = None


class _Cinder(Struct):
    """An OpenStack Cinder volume.

    volume_id: id of the volume.
    fs_type: its file system.
    read_only: whether writing is refused.
    """

    volume_id: Required[str] = ""
    fs_type: str = ""
    read_only: bool = False


class CinderVolumeSource(_Cinder):
    """An OpenStack Cinder volume.

    secret_ref: credentials.
    """

    secret_ref: LocalObjectReference | None = None


class CinderPersistentVolumeSource(_Cinder):
    """An OpenStack Cinder volume.

    secret_ref: credentials.
    """

    secret_ref: SecretReference | None = None


class _CephFS(Struct):
    """A Ceph file system; removed upstream.

    monitors: addresses of the monitors.
    path: path in the file system; / if empty.
    user: name of the user.
    secret_file: path of the key ring.
    read_only: whether writing is refused.
    """

    monitors: Required[Strings] = ()
    path: str = ""
    user: str = ""
    secret_file: str = ""
    read_only: bool = False


class CephFSVolumeSource(_CephFS):
    """A Ceph file system; removed upstream.

    secret_ref: credentials.
    """

    secret_ref: LocalObjectReference | None = None


class CephFSPersistentVolumeSource(_CephFS):
    """A Ceph file system; removed upstream.

    secret_ref: credentials.
    """

    secret_ref: SecretReference | None = None


class FlockerVolumeSource(Struct):
    """A Flocker volume; deprecated.

    dataset_name: name of the data set.
    dataset_uuid: id of the data set.
    """

    dataset_name: str = ""
    dataset_uuid: str = ""


class FCVolumeSource(Struct):
    """A Fibre Channel disk.

    target_wwns: names of the targets.
    lun: number of the disk.
    fs_type: its file system.
    read_only: whether writing is refused.
    wwids: ids of the disk, instead of targets and number.
    """

    target_wwns: Strings = ()
    lun: Int32 | None = None
    fs_type: str = ""
    read_only: bool = False
    wwids: Strings = ()


class AzureFileVolumeSource(Struct):
    """An Azure file share.

    secret_name: name of the Secret with the account's name and key.
    share_name: name of the share.
    read_only: whether writing is refused.
    """

    secret_name: Required[str] = ""
    share_name: Required[str] = ""
    read_only: bool = False


class AzureFilePersistentVolumeSource(AzureFileVolumeSource):
    """An Azure file share.

    secret_namespace: namespace of the Secret; the claim's if absent.
    """

    secret_namespace: str | None = None


class VsphereVirtualDiskVolumeSource(Struct):
    """A vSphere disk.

    volume_path: path of the disk.
    fs_type: its file system.
    storage_policy_name: name of the storage policy.
    storage_policy_id: id of the storage policy.
    """

    volume_path: Required[str] = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = ""


class QuobyteVolumeSource(Struct):
    """A Quobyte volume; deprecated.

    registry: addresses of the registry.
    volume: name of the volume.
    read_only: whether writing is refused.
    user: user of the files.
    group: group of the files.
    tenant: tenant that the volume belongs to.
    """

    registry: Required[str] = ""
    volume: Required[str] = ""
    read_only: bool = False
    user: str = ""
    group: str = ""
    tenant: str = ""


class AzureDiskVolumeSource(Struct):
    """An Azure disk.

    disk_name: name of the disk.
    disk_uri: URI of the disk.
    caching_mode: None, ReadOnly or ReadWrite.
    fs_type: its file system.
    read_only: whether writing is refused.
    kind: Shared, Dedicated or Managed.
    """

    disk_name: Required[str] = ""
    disk_uri: Required[str] = ""
    caching_mode: Annotated[str | None, Default("ReadWrite")] = None
    fs_type: Annotated[str | None, Default("ext4")] = None
    read_only: Annotated[bool | None, Default(False)] = None
    kind: Annotated[str | None, Default("Shared")] = None


class PhotonPersistentDiskVolumeSource(Struct):
    """A Photon disk; deprecated.

    pd_id: id of the disk.
    fs_type: its file system.
    """

    pd_id: Required[str] = ""
    fs_type: str = ""


class PortworxVolumeSource(Struct):
    """A Portworx volume.

    volume_id: id of the volume.
    fs_type: its file system.
    read_only: whether writing is refused.
    """

    volume_id: Required[str] = ""
    fs_type: str = ""
    read_only: bool = False


class _ScaleIO(Struct):
    """A ScaleIO volume; deprecated.

    gateway: address of the gateway.
    system: name of the storage system.
    ssl_enabled: whether the gateway is asked over TLS.
    protection_domain: name of the protection domain.
    storage_pool: the pool within it.
    storage_mode: ThickProvisioned or ThinProvisioned.
    volume_name: name of the volume.
    fs_type: its file system.
    read_only: whether writing is refused.
    """

    gateway: Required[str] = ""
    system: Required[str] = ""
    ssl_enabled: bool = False
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: Annotated[str, Default("ThinProvisioned")] = ""
    volume_name: str = ""
    fs_type: Annotated[str, Default("xfs")] = ""
    read_only: bool = False


class ScaleIOVolumeSource(_ScaleIO):
    """A ScaleIO volume; deprecated.

    secret_ref: credentials.
    """

    secret_ref: Required[LocalObjectReference | None] = None


class ScaleIOPersistentVolumeSource(_ScaleIO):
    """A ScaleIO volume; deprecated.

    secret_ref: credentials.
    """

    secret_ref: Required[SecretReference | None] = None


class _StorageOS(Struct):
    """A StorageOS volume; deprecated.

    volume_name: name of the volume.
    volume_namespace: scope of that name.
    fs_type: its file system.
    read_only: whether writing is refused.
    """

    volume_name: str = ""
    volume_namespace: str = ""
    fs_type: str = ""
    read_only: bool = False


class StorageOSVolumeSource(_StorageOS):
    """A StorageOS volume; deprecated.

    secret_ref: credentials.
    """

    secret_ref: LocalObjectReference | None = None


class StorageOSPersistentVolumeSource(_StorageOS):
    """A StorageOS volume; deprecated.

    secret_ref: credentials.
    """

    secret_ref: ObjectReference | None = None


class CSIVolumeSource(Struct):
    """Storage of a CSI driver that ends with the pod.

    driver: name of the driver.
    read_only: whether writing is refused.
    fs_type: its file system.
    volume_attributes: what the driver is told.
    node_publish_secret_ref: credentials for mounting.
    """

    driver: Required[str] = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = {}
    node_publish_secret_ref: LocalObjectReference | None = None


class CSIPersistentVolumeSource(Struct):
    """Storage of a CSI driver.

    driver: name of the driver.
    volume_handle: the driver's name for the volume.
    read_only: whether writing is refused.
    fs_type: its file system.
    volume_attributes: what the driver is told.
    controller_publish_secret_ref: credentials for attaching.
    node_stage_secret_ref: credentials for preparing on the node.
    node_publish_secret_ref: credentials for mounting.
    controller_expand_secret_ref: credentials for growing.
    node_expand_secret_ref: credentials for growing on the node.
    """

    driver: Required[str] = ""
    volume_handle: Required[str] = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] = {}
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class LocalVolumeSource(Struct):
    """A disk or directory of one node.

    path: path on the node.
    fs_type: its file system, for a disk.
    """

    path: Required[str] = ""
    fs_type: str | None = None
