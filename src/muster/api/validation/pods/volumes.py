"""The rules of a pod's volumes.

A volume that needs a storage system counts as a source, and the fields of its source are not checked.
"""

from collections.abc import Callable, Iterator
from typing import Any

from muster.api.core import (
    ConfigMapVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    KeyToPath,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from muster.api.core.sources import NFSVolumeSource
from muster.api.meta import ObjectMeta
from muster.api.status import FieldError
from muster.api.validation import metadata, names, paths
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    required,
    unsupported,
)
from muster.api.validation.pods.environment import VOLUME_FIELDS, validate_field_selector, validate_resource_selector
from muster.api.validation.resources import validate_amount
from muster.api.values.quantity import QuantityError, parse

PULL_POLICIES = ("Always", "IfNotPresent", "Never")

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_TEN_MINUTES = 600


def sort_out_volumes(
    path: str, volumes: tuple[Volume, ...], pod_name: str = ""
) -> tuple[dict[str, Volume], list[FieldError]]:
    """Return the valid volumes by name, and the errors in the others.

    pod_name: the name of the pod; empty for templates.
    """
    good: dict[str, Volume] = {}
    errors = list(_validate_volumes(path, volumes, pod_name, good))
    return good, errors


def validate_pull_policy(path: str, policy: str) -> Errors:
    """Check an image pull policy."""
    if not policy:
        yield required(path)
    elif policy not in PULL_POLICIES:
        yield unsupported(path, policy, PULL_POLICIES)


def _validate_volumes(path: str, volumes: tuple[Volume, ...], pod_name: str, good: dict[str, Volume]) -> Errors:
    made = {f"{pod_name}-{volume.name}" for volume in volumes if pod_name and volume.ephemeral is not None}
    for i, volume in enumerate(volumes):
        place = f"{path}[{i}]"
        errors = list(_validate_volume(place, volume, pod_name))
        if volume.name in good:
            errors.append(duplicate(f"{place}.name", volume.name))
        if not errors:
            good[volume.name] = volume
        yield from errors
        claim = volume.persistent_volume_claim
        if claim is not None and claim.claim_name in made:
            sentence = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"{place}.persistentVolumeClaim.claimName", claim.claim_name, sentence)


def _validate_volume(path: str, volume: Volume, pod_name: str) -> Errors:
    sources = list(_list_sources(volume))
    if not sources:
        yield required(path, "must specify a volume type")
    for n, (field, source, rule) in enumerate(sources):
        if n:
            yield forbidden(f"{path}.{field}", "may not specify more than 1 volume type")
        elif rule is not None:
            yield from rule(f"{path}.{field}", source)
    if volume.ephemeral is not None and pod_name:
        name = f"{pod_name}-{volume.name}"
        for message in names.dns_subdomain(name):
            yield invalid(f"{path}.name", volume.name, f'PVC name "{name}": {message}')
    if not volume.name:
        yield required(f"{path}.name")
    else:
        yield from make_errors(f"{path}.name", volume.name, names.dns_label(volume.name))


def _list_sources(volume: Volume) -> Iterator[tuple[str, Any, Callable[[str, Any], Errors] | None]]:
    for field, rule in _RULES.items():
        source = getattr(volume, field)
        if source is not None:
            yield _WIRE_NAMES[field], source, rule


def _validate_empty_dir(path: str, source: EmptyDirVolumeSource) -> Errors:
    if source.size_limit is None:
        return
    try:
        negative = parse(source.size_limit) < 0
    except QuantityError as error:
        yield invalid(f"{path}.sizeLimit", source.size_limit, str(error))
    else:
        if negative:
            yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_host_path(path: str, source: HostPathVolumeSource) -> Errors:
    if not source.path:
        yield required(f"{path}.path")
    else:
        yield from paths.validate_no_backsteps(f"{path}.path", source.path)
        if source.type is not None and source.type not in _HOST_PATH_TYPES:
            yield unsupported(f"{path}.type", source.type, _HOST_PATH_TYPES)


def _validate_secret(path: str, source: SecretVolumeSource) -> Errors:
    if not source.secret_name:
        yield required(f"{path}.secretName")
    yield from paths.validate_file_mode(f"{path}.defaultMode", source.default_mode)
    yield from _validate_items(f"{path}.items", source.items)


def _validate_config_map(path: str, source: ConfigMapVolumeSource) -> Errors:
    if not source.name:
        yield required(f"{path}.name")
    yield from paths.validate_file_mode(f"{path}.defaultMode", source.default_mode)
    yield from _validate_items(f"{path}.items", source.items)


def _validate_items(path: str, items: tuple[KeyToPath, ...]) -> Errors:
    for i, item in enumerate(items):
        yield from _validate_item(f"{path}[{i}]", item)


def _validate_item(path: str, item: KeyToPath) -> Errors:
    if not item.key:
        yield required(f"{path}.key")
    if not item.path:
        yield required(f"{path}.path")
    yield from paths.validate_path_in_volume(f"{path}.path", item.path)
    yield from paths.validate_file_mode(f"{path}.mode", item.mode)


def _validate_downward_api(path: str, source: DownwardAPIVolumeSource) -> Errors:
    yield from paths.validate_file_mode(f"{path}.defaultMode", source.default_mode)
    for file in source.items:
        yield from _validate_downward_file(path, file)


def _validate_downward_file(path: str, file: DownwardAPIVolumeFile) -> Errors:
    if not file.path:
        yield required(f"{path}.path")
    yield from paths.validate_path_in_volume(f"{path}.path", file.path)
    if file.field_ref is not None:
        yield from validate_field_selector(f"{path}.fieldRef", file.field_ref, VOLUME_FIELDS)
        if file.resource_field_ref is not None:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif file.resource_field_ref is not None:
        yield from validate_resource_selector(f"{path}.resourceFieldRef", file.resource_field_ref, needs_container=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from paths.validate_file_mode(f"{path}.mode", file.mode)


def _validate_projected_source(path: str, source: ProjectedVolumeSource) -> Errors:
    yield from paths.validate_file_mode(f"{path}.defaultMode", source.default_mode)
    seen: set[str] = set()
    for i, projection in enumerate(source.sources):
        place = f"{path}.sources[{i}]"
        yield from _validate_projection(path, place, projection, seen)
        sources = (projection.secret, projection.config_map, projection.downward_api,
                   projection.service_account_token, projection.cluster_trust_bundle,
                   projection.pod_certificate)  # fmt: skip
        if sum(each_source is not None for each_source in sources) > 1:
            yield forbidden(place, "may not specify more than 1 volume type per source")


def _validate_projection(path: str, place: str, projection: VolumeProjection, seen: set[str]) -> Errors:
    for field, keys in (("secret", projection.secret), ("configMap", projection.config_map)):
        if keys is None:
            continue
        if not keys.name:
            yield required(f"{place}.{field}.name")
        for i, item in enumerate(keys.items):
            yield from _validate_item(f"{place}.{field}.items[{i}]", item)
            yield from _validate_unique_file(path, item.path, keys.name, seen)
    if projection.downward_api is not None:
        for file in projection.downward_api.items:
            yield from _validate_downward_file(f"{place}.downwardAPI", file)
            yield from _validate_unique_file(path, file.path, file.path, seen)
    if projection.service_account_token is not None:
        yield from _validate_token(path, f"{place}.serviceAccountToken", projection.service_account_token)


def _validate_unique_file(path: str, file: str, value: str, seen: set[str]) -> Errors:
    if file and file in seen:
        yield invalid(path, value, "conflicting duplicate paths")
    seen.add(file)


def _validate_token(path: str, place: str, token: ServiceAccountTokenProjection) -> Errors:
    seconds = token.expiration_seconds
    if seconds is not None and seconds < _TEN_MINUTES:
        yield invalid(f"{place}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > 2**32:
        yield invalid(f"{place}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if not token.path:
        yield required(f"{path}.path")
    else:
        yield from paths.validate_path_in_volume(f"{path}.path", token.path)


def _validate_claim(path: str, source: PersistentVolumeClaimVolumeSource) -> Errors:
    if not source.claim_name:
        yield required(f"{path}.claimName")


def _validate_nfs(path: str, source: NFSVolumeSource) -> Errors:
    if not source.server:
        yield required(f"{path}.server")
    if not source.path:
        yield required(f"{path}.path")
    if not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path")


def _validate_image(path: str, source: ImageVolumeSource) -> Errors:
    yield from validate_pull_policy(f"{path}.pullPolicy", source.pull_policy)


def _validate_ephemeral(path: str, source: EphemeralVolumeSource) -> Errors:
    if source.volume_claim_template is None:
        yield required(f"{path}.volumeClaimTemplate")
        return
    template = f"{path}.volumeClaimTemplate"
    meta = source.volume_claim_template.metadata
    yield from metadata.validate_annotations(f"{template}.metadata.annotations", meta.annotations)
    yield from metadata.validate_labels(f"{template}.metadata.labels", meta.labels)
    for field in ("name", "generate_name", "namespace", "owner_references", "finalizers"):
        if getattr(meta, field) != getattr(ObjectMeta(), field):
            yield forbidden(f"{template}.metadata.{_META_NAMES[field]}", "cannot be set")
    yield from validate_claim_spec(f"{template}.spec", source.volume_claim_template.spec)


_META_NAMES = {
    "name": "name",
    "generate_name": "generateName",
    "namespace": "namespace",
    "owner_references": "ownerReferences",
    "finalizers": "finalizers",
}


def validate_claim_spec(path: str, spec: PersistentVolumeClaimSpec) -> Errors:
    """Check the spec of a claim on storage."""
    if not spec.access_modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from metadata.validate_label_selector(f"{path}.selector", spec.selector)
    for mode in spec.access_modes:
        if mode not in ACCESS_MODES:
            yield unsupported(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in spec.access_modes and len(set(spec.access_modes)) > 1:
        yield forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    storage = spec.resources.requests.get("storage")
    if storage is None:
        yield required(f"{path}.resources[storage]")
    else:
        yield from validate_amount(f"{path}.resources[storage]", "storage", storage)
    if spec.volume_mode not in (None, "Block", "Filesystem"):
        yield unsupported(f"{path}.volumeMode", spec.volume_mode, ("Block", "Filesystem"))


# The sources in the order of upstream's checks, with None for a source whose fields are not checked.
_RULES: dict[str, Callable[[str, Any], Errors] | None] = {
    "empty_dir": _validate_empty_dir,
    "host_path": _validate_host_path,
    "git_repo": None,
    "gce_persistent_disk": None,
    "aws_elastic_block_store": None,
    "secret": _validate_secret,
    "nfs": _validate_nfs,
    "iscsi": None,
    "glusterfs": None,
    "flocker": None,
    "persistent_volume_claim": _validate_claim,
    "rbd": None,
    "cinder": None,
    "cephfs": None,
    "quobyte": None,
    "downward_api": _validate_downward_api,
    "fc": None,
    "flex_volume": None,
    "config_map": _validate_config_map,
    "azure_file": None,
    "vsphere_volume": None,
    "photon_persistent_disk": None,
    "portworx_volume": None,
    "azure_disk": None,
    "storageos": None,
    "projected": _validate_projected_source,
    "scale_io": None,
    "csi": None,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
_WIRE_NAMES = dict(zip(Volume.__struct_fields__, Volume.__struct_encode_fields__, strict=True))
