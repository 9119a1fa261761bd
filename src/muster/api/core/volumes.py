# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Volumes: the sources of a pod's files."""

from muster.api.core import sources
from muster.api.core.claims import PersistentVolumeClaimSpec
from muster.api.core.container import ObjectFieldSelector, ResourceFieldSelector
from muster.api.core.references import LocalObjectReference
from muster.api.markers import Int32, Required
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.values.quantity import Quantity


class EmptyDirVolumeSource(Struct):
    """A directory that begins empty and ends with the pod."""

    medium: str = ""
    size_limit: Quantity | None = None


class HostPathVolumeSource(Struct):
    """A file or directory of the node."""

    path: Required[str] = ""
    type: str | None = None


class KeyToPath(Struct):
    """The path of one key of an object."""

    key: Required[str] = ""
    path: Required[str] = ""
    mode: Int32 | None = None


class ConfigMapVolumeSource(LocalObjectReference):
    """A file for each key of a ConfigMap."""

    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class SecretVolumeSource(Struct):
    """A file for each key of a Secret."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: bool | None = None


class DownwardAPIVolumeFile(Struct):
    """A file with a field of the pod."""

    path: Required[str] = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None


class DownwardAPIVolumeSource(Struct):
    """Files with fields of the pod."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: Int32 | None = None


class SecretProjection(LocalObjectReference):
    """Keys of a Secret, in a projected volume."""

    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class ConfigMapProjection(LocalObjectReference):
    """Keys of a ConfigMap, in a projected volume."""

    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class DownwardAPIProjection(Struct):
    """Files with fields of the pod, in a projected volume."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


class ServiceAccountTokenProjection(Struct):
    """A token of the pod's service account, in a projected volume."""

    audience: str = ""
    expiration_seconds: int | None = None
    path: Required[str] = ""


class ClusterTrustBundleProjection(Struct):
    """Trust anchors of the cluster, in a projected volume: of one bundle, or of all matching bundles of a signer."""

    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool | None = None
    path: Required[str] = ""


class PodCertificateProjection(Struct):
    """A certificate of the pod and its key, in a projected volume."""

    signer_name: Required[str] = ""
    key_type: Required[str] = ""
    max_expiration_seconds: Int32 | None = None
    credential_bundle_path: str = ""
    key_path: str = ""
    certificate_chain_path: str = ""
    user_annotations: dict[str, str] = {}


class VolumeProjection(Struct):
    """One source of a projected volume. Exactly one field is set."""

    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Struct):
    """Several sources in one directory."""

    sources: tuple[VolumeProjection, ...] = ()
    default_mode: Int32 | None = None


class PersistentVolumeClaimVolumeSource(Struct):
    """A claim on storage that outlives the pod."""

    claim_name: Required[str] = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(Struct):
    """The template of a claim that is created for the pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Required[PersistentVolumeClaimSpec] = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Struct):
    """A claim that is created for the pod and deleted with it."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Struct):
    """The files of an image."""

    reference: str = ""
    pull_policy: str = ""


class Volume(Struct):
    """Files that the pod's containers can mount. Exactly one source is set."""

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
