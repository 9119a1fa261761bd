# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Where a pod's files come from."""

from typing import Annotated

from muster.api.core import sources
from muster.api.core.claims import PersistentVolumeClaimSpec
from muster.api.core.container import ObjectFieldSelector, ResourceFieldSelector
from muster.api.core.references import LocalObjectReference
from muster.api.markers import ATOMIC, Int32, Required, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.values.quantity import Quantity


class EmptyDirVolumeSource(Struct):
    """A directory that begins empty and ends with the pod.

    medium: empty for the node's disk, Memory for tmpfs.
    size_limit: the most it may hold.
    """

    medium: str = ""
    size_limit: Quantity | None = None


class HostPathVolumeSource(Struct):
    """A file or directory of the node.

    path: absolute path on the node.
    type: what must be there: DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice, BlockDevice.
    """

    path: Required[str] = ""
    type: str | None = None


class KeyToPath(Struct):
    """Where one key of an object goes.

    key: the key.
    path: relative path of the file, without `..`.
    mode: permissions of the file; the volume's default if absent.
    """

    key: Required[str] = ""
    path: Required[str] = ""
    mode: Int32 | None = None


class ConfigMapVolumeSource(LocalObjectReference):
    """A file for each key of a ConfigMap.

    name: name of the ConfigMap.
    items: keys and where they go; all keys under their own name if absent.
    default_mode: permissions of the files; 0644 if absent.
    optional: whether the ConfigMap or its keys may be missing.
    """

    items: Annotated[tuple[KeyToPath, ...], ATOMIC] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class SecretVolumeSource(Struct):
    """A file for each key of a Secret.

    secret_name: name of the Secret.
    items: keys and where they go; all keys under their own name if absent.
    default_mode: permissions of the files; 0644 if absent.
    optional: whether the Secret or its keys may be missing.
    """

    secret_name: str = ""
    items: Annotated[tuple[KeyToPath, ...], ATOMIC] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class DownwardAPIVolumeFile(Struct):
    """A file with a fact about the pod.

    path: relative path of the file, without `..`.
    field_ref: a field of the pod.
    resource_field_ref: a request or limit of a container.
    mode: permissions of the file; the volume's default if absent.
    """

    path: Required[str] = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None


class DownwardAPIVolumeSource(Struct):
    """Files with facts about the pod.

    items: the files.
    default_mode: permissions of the files; 0644 if absent.
    """

    items: Annotated[tuple[DownwardAPIVolumeFile, ...], ATOMIC] = ()
    default_mode: Int32 | None = None


class SecretProjection(LocalObjectReference):
    """Keys of a Secret, in a projected volume.

    name: name of the Secret.
    items: keys and where they go; all keys under their own name if absent.
    optional: whether the Secret or its keys may be missing.
    """

    items: Annotated[tuple[KeyToPath, ...], ATOMIC] = ()
    optional: bool | None = None


class ConfigMapProjection(LocalObjectReference):
    """Keys of a ConfigMap, in a projected volume.

    name: name of the ConfigMap.
    items: keys and where they go; all keys under their own name if absent.
    optional: whether the ConfigMap or its keys may be missing.
    """

    items: Annotated[tuple[KeyToPath, ...], ATOMIC] = ()
    optional: bool | None = None


class DownwardAPIProjection(Struct):
    """Facts about the pod, in a projected volume.

    items: the files.
    """

    items: Annotated[tuple[DownwardAPIVolumeFile, ...], ATOMIC] = ()


class ServiceAccountTokenProjection(Struct):
    """A token of the pod's service account, in a projected volume.

    audience: for whom the token is; the API server if empty.
    expiration_seconds: how long it is good; at least 600; 3600 if absent.
    path: relative path of the file.
    """

    audience: str = ""
    expiration_seconds: int | None = None
    path: Required[str] = ""


class ClusterTrustBundleProjection(Struct):
    """Trust anchors of the cluster, in a projected volume: of one bundle, or of all of a signer's that match.

    name: name of the bundle.
    signer_name: signer whose bundles are meant.
    label_selector: which of the signer's bundles; none if absent, all if empty.
    optional: whether there may be none.
    path: relative path of the file.
    """

    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool | None = None
    path: Required[str] = ""


class PodCertificateProjection(Struct):
    """A certificate for the pod and its key, in a projected volume.

    signer_name: who signs it.
    key_type: kind of the key, such as ED25519 or ECDSAP256.
    max_expiration_seconds: how long it is good at most.
    credential_bundle_path: relative path of a file with the key and the certificates.
    key_path: relative path of a file with the key alone.
    certificate_chain_path: relative path of a file with the certificates alone.
    user_annotations: further facts for the signer.
    """

    signer_name: Required[str] = ""
    key_type: Required[str] = ""
    max_expiration_seconds: Int32 | None = None
    credential_bundle_path: str = ""
    key_path: str = ""
    certificate_chain_path: str = ""
    user_annotations: dict[str, str] = {}


class VolumeProjection(Struct):
    """One source of a projected volume; exactly one.

    secret: keys of a Secret.
    downward_api: facts about the pod.
    config_map: keys of a ConfigMap.
    service_account_token: a token of the pod's service account.
    cluster_trust_bundle: trust anchors of the cluster.
    pod_certificate: a certificate for the pod.
    """

    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Struct):
    """Several sources in one directory.

    sources: the sources.
    default_mode: permissions of the files; 0644 if absent.
    """

    sources: Annotated[tuple[VolumeProjection, ...], ATOMIC] = ()
    default_mode: Int32 | None = None


class PersistentVolumeClaimVolumeSource(Struct):
    """A claim on storage that outlives the pod.

    claim_name: name of the claim, in the pod's namespace.
    read_only: whether writing is refused.
    """

    claim_name: Required[str] = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(Struct):
    """A claim that is made for the pod.

    metadata: labels and annotations of the claim.
    spec: what is claimed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[PersistentVolumeClaimSpec] = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Struct):
    """A claim that is made for the pod and ends with it.

    volume_claim_template: the claim.
    """

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Struct):
    """The files of an image.

    reference: the image.
    pull_policy: Always, IfNotPresent or Never.
    """

    reference: str = ""
    pull_policy: Annotated[str, one_of("Always", "IfNotPresent", "Never")] = ""


class Volume(Struct):
    """Files that the pod's containers can mount; exactly one source.

    name: unique in the pod; a DNS label.
    host_path: a file or directory of the node.
    empty_dir: a directory that begins empty and ends with the pod.
    secret: keys of a Secret.
    config_map: keys of a ConfigMap.
    downward_api: facts about the pod.
    projected: several of these in one directory.
    persistent_volume_claim: storage that outlives the pod.
    ephemeral: a claim that is made for the pod.
    image: the files of an image.
    csi: storage of a CSI driver.
    nfs: a share of an NFS server.
    gce_persistent_disk: a persistent disk of GCE.
    aws_elastic_block_store: a disk of AWS.
    git_repo: a git repository; deprecated.
    iscsi: an iSCSI disk.
    glusterfs: a Glusterfs volume; removed upstream.
    rbd: a Ceph block device; removed upstream.
    flex_volume: storage of a plugin on the node; deprecated.
    cinder: an OpenStack Cinder volume.
    cephfs: a Ceph file system; removed upstream.
    flocker: a Flocker volume; deprecated.
    fc: a Fibre Channel disk.
    azure_file: an Azure file share.
    vsphere_volume: a vSphere disk.
    quobyte: a Quobyte volume; deprecated.
    azure_disk: an Azure disk.
    photon_persistent_disk: a Photon disk; deprecated.
    portworx_volume: a Portworx volume.
    scale_io: a ScaleIO volume; deprecated.
    storageos: a StorageOS volume; deprecated.
    """

    name: Required[str] = ""
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None
    csi: sources.CSIVolumeSource | None = None
    nfs: sources.NFSVolumeSource | None = None
    gce_persistent_disk: sources.GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: sources.AWSElasticBlockStoreVolumeSource | None = None
    git_repo: sources.GitRepoVolumeSource | None = None
    iscsi: sources.ISCSIVolumeSource | None = None
    glusterfs: sources.GlusterfsVolumeSource | None = None
    rbd: sources.RBDVolumeSource | None = None
    flex_volume: sources.FlexVolumeSource | None = None
    cinder: sources.CinderVolumeSource | None = None
    cephfs: sources.CephFSVolumeSource | None = None
    flocker: sources.FlockerVolumeSource | None = None
    fc: sources.FCVolumeSource | None = None
    azure_file: sources.AzureFileVolumeSource | None = None
    vsphere_volume: sources.VsphereVirtualDiskVolumeSource | None = None
    quobyte: sources.QuobyteVolumeSource | None = None
    azure_disk: sources.AzureDiskVolumeSource | None = None
    photon_persistent_disk: sources.PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: sources.PortworxVolumeSource | None = None
    scale_io: sources.ScaleIOVolumeSource | None = None
    storageos: sources.StorageOSVolumeSource | None = None
