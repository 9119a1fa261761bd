"""Compute the contents of a pod's volumes, as trees of files, from the volumes and the objects they refer to. Pure.

`files.py` writes the trees to disk. Messages are upstream's, because they appear in FailedMount events.
"""

import posixpath
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from muster.api.core import (
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    Secret,
    SecretProjection,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from muster.api.meta import wire_name
from muster.cluster.nodes.container import downward
from muster.cluster.nodes.container.downward import FieldError, NodeFacts
from muster.cluster.nodes.container.environment import AskedToken, Names, Objects

_DEFAULT_MODE = 0o644
DEFAULT_TOKEN_SECONDS = 3600
# The maximum size of objects in all volumes of a pod: an object has room for 1 MiB, or for 100,000 empty keys, and many
# volumes can name it. Every file takes whole blocks of `_BLOCK` bytes on disk.
MOST_BYTES = 64 * 1024 * 1024
_BLOCK = 4096


class VolumeError(Exception):
    """A volume that cannot be provided, at least not yet. The message is for the user.

    waits: whether the missing object may still be created.
    """

    def __init__(self, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.waits = waits


class File(Struct, frozen=True):
    """One file of a tree."""

    data: bytes
    mode: int = _DEFAULT_MODE


class EmptyDirectory(Struct, frozen=True):
    """The content of an emptyDir volume: a directory that is empty at first and is removed with the pod."""


class HostPath(Struct, frozen=True):
    """The content of a hostPath volume: a path of the machine.

    type: as in the pod's spec, what must exist at the path or be created there.
    """

    path: str
    type: str = ""


class Tree(Struct, frozen=True):
    """The content of a volume that shows objects: its files by relative path.

    All files are replaced at once when their objects change.
    """

    files: Mapping[str, File] = field(default_factory=dict)


class Claimed(Struct, frozen=True):
    """The content of a volume whose claim is bound to a directory of the machine. The directory outlives the pod."""

    path: str


Content = EmptyDirectory | HostPath | Claimed | Tree


def list_references(volume: Volume) -> Names:
    """Return the names of the objects that the volume refers to."""
    sources = volume.projected.sources if volume.projected is not None else ()
    config_maps = {source.config_map.name for source in sources if source.config_map is not None}
    secrets = {source.secret.name for source in sources if source.secret is not None}
    if volume.config_map is not None:
        config_maps.add(volume.config_map.name)
    if volume.secret is not None:
        secrets.add(volume.secret.secret_name)
    claim = volume.persistent_volume_claim
    return Names(frozenset(config_maps), frozenset(secrets), frozenset({claim.claim_name} if claim is not None else ()))


def is_in_memory(volume: Volume) -> bool:
    """Return whether the volume is in memory and not on disk, as with the kubelet.

    It is if its medium is memory, or if it may show a secret.
    """
    is_memory_medium = volume.empty_dir is not None and volume.empty_dir.medium == "Memory"
    return is_memory_medium or volume.secret is not None or volume.projected is not None


def read_requested_token(projection: ServiceAccountTokenProjection) -> AskedToken:
    """Return the service account token that a projection requests."""
    seconds = projection.expiration_seconds
    return AskedToken(projection.audience, DEFAULT_TOKEN_SECONDS if seconds is None else seconds)


def list_requested_tokens(pod: Pod) -> list[AskedToken]:
    """Return all service account tokens that the pod's volumes request."""
    sources = (source for volume in pod.spec.volumes if volume.projected for source in volume.projected.sources)
    tokens = (source.service_account_token for source in sources)
    return list(dict.fromkeys(read_requested_token(token) for token in tokens if token is not None))


def make_content(pod: Pod, volume: Volume, objects: Objects, around: NodeFacts, limit: int = MOST_BYTES) -> Content:
    """Return the desired content of a volume. Raises `VolumeError`.

    objects: the objects that the pod's volumes name.
    around: the facts that only the node knows about the pod.
    limit: the maximum total size of the files in bytes.
    """
    if volume.empty_dir is not None:
        return EmptyDirectory()
    if volume.host_path is not None:
        return HostPath(volume.host_path.path, volume.host_path.type or "")
    if volume.persistent_volume_claim is not None:
        return _find_claimed(volume.persistent_volume_claim.claim_name, objects)
    if volume.config_map is not None:
        source = volume.config_map
        return _make_tree(
            _make_files_of_config_map(pod, source, source.name, objects, _fill_in_mode(source.default_mode)), limit
        )
    if volume.secret is not None:
        secret_source = volume.secret
        return _make_tree(
            _make_files_of_secret(
                pod, secret_source, secret_source.secret_name, objects, _fill_in_mode(secret_source.default_mode)
            ),
            limit,
        )
    if volume.downward_api is not None:
        downward_source = volume.downward_api
        return _make_tree(
            _make_files_of_fields(pod, downward_source.items, around, _fill_in_mode(downward_source.default_mode)),
            limit,
        )
    if volume.projected is not None:
        mode = _fill_in_mode(volume.projected.default_mode)
        files: dict[str, File] = {}
        for projection in volume.projected.sources:
            shown = _make_tree(_make_files_of_projection(pod, projection, objects, around, mode), limit)
            limit -= size_of(shown)
            files |= shown.files
        return Tree(files)
    kind = next((name for name in volume.__struct_fields__ if name != "name" and getattr(volume, name)), "unknown")
    raise VolumeError(
        f"process nodes have no volumes of type {wire_name(kind)}; use emptyDir, hostPath, configMap, secret, "
        f"downwardAPI or projected"
    )


def _find_claimed(claim: str, objects: Objects) -> Claimed:
    volume = objects.volumes.get(claim)
    if volume is None:
        raise VolumeError(f'persistentvolumeclaim "{claim}" is not bound', waits=True)
    if volume.spec.host_path is not None:
        return Claimed(volume.spec.host_path.path)
    if volume.spec.local is not None:
        return Claimed(volume.spec.local.path)
    raise VolumeError(f'persistentvolumeclaim "{claim}": process nodes mount volumes with hostPath or local only')


def size_of(content: Content) -> int:
    """Return the size of the content in bytes, in whole blocks, without files that the pod itself writes."""
    files = content.files.values() if isinstance(content, Tree) else ()
    return _BLOCK + sum(max(len(file.data), _BLOCK) for file in files)


def _make_tree(files: Mapping[str, File], limit: int) -> Tree:
    tree = Tree(files)
    if size_of(tree) > limit:
        raise VolumeError(
            f"the pod's volumes would show more than {MOST_BYTES} bytes of objects, all together; "
            f"a file takes {_BLOCK} at least"
        )
    return tree


def relocate_variables(variables: Mapping[str, str], places: Mapping[str, str]) -> dict[str, str]:
    """Return a container's variables, with the paths of its volumes replaced by their real paths on this machine.

    This serves a container whose volumes cannot be mounted.

    places: the real path of each volume (or its subPath), by mount path.
    """
    deepest_first = sorted(places, key=len, reverse=True)

    def relocate(text: str) -> str:
        for mount in deepest_first:
            if text == mount or text.startswith(mount.rstrip("/") + "/"):
                return places[mount] + text[len(mount.rstrip("/")) :]
        return text

    return {name: relocate(text) for name, text in variables.items()}


def _make_files_of_projection(
    pod: Pod, projection: VolumeProjection, objects: Objects, around: NodeFacts, mode: int
) -> dict[str, File]:
    if projection.config_map is not None:
        return _make_files_of_config_map(pod, projection.config_map, projection.config_map.name, objects, mode)
    if projection.secret is not None:
        return _make_files_of_secret(pod, projection.secret, projection.secret.name, objects, mode)
    if projection.downward_api is not None:
        return _make_files_of_fields(pod, projection.downward_api.items, around, mode)
    if projection.service_account_token is not None:
        token = projection.service_account_token
        return {_check_path(token.path): File(objects.tokens[read_requested_token(token)].encode(), mode)}
    raise VolumeError(
        "process nodes know the projected sources configMap, secret, downwardAPI and serviceAccountToken only"
    )


def _make_files_of_config_map(
    pod: Pod, source: ConfigMapVolumeSource | ConfigMapProjection, name: str, objects: Objects, mode: int
) -> dict[str, File]:
    config_map: ConfigMap | None = objects.config_maps.get(name)
    if config_map is None and not source.optional:
        raise VolumeError(f'configmap "{name}" not found', waits=True)
    data = {key: text.encode() for key, text in config_map.data.items()} | config_map.binary_data if config_map else {}
    where = f"configmap {pod.metadata.namespace}/{name}"
    return _select_files(data, source.items, mode, where, optional=bool(source.optional))


def _make_files_of_secret(
    pod: Pod, source: SecretVolumeSource | SecretProjection, name: str, objects: Objects, mode: int
) -> dict[str, File]:
    secret: Secret | None = objects.secrets.get(name)
    if secret is None and not source.optional:
        raise VolumeError(f'secret "{name}" not found', waits=True)
    where = f"secret {pod.metadata.namespace}/{name}"
    return _select_files(secret.data if secret else {}, source.items, mode, where, optional=bool(source.optional))


def _make_files_of_fields(
    pod: Pod, items: Iterable[DownwardAPIVolumeFile], around: NodeFacts, mode: int
) -> dict[str, File]:
    containers = {container.name: container for container in (*pod.spec.init_containers, *pod.spec.containers)}
    files = {}
    fields: dict[str, bytes] = {}  # annotations are long, and many items can refer to them
    for item in items:
        try:
            if item.field_ref is not None:
                path = item.field_ref.field_path
                data = fields.get(path)
                if data is None:
                    data = fields[path] = downward.get_field(pod, item.field_ref, around).encode()
            elif item.resource_field_ref is not None:
                data = downward.format_resource(containers, item.resource_field_ref, around).encode()
            else:
                raise VolumeError(f"{item.path}: neither fieldRef nor resourceFieldRef")
        except FieldError as error:
            raise VolumeError(str(error)) from None
        files[_check_path(item.path)] = File(data, mode if item.mode is None else item.mode)
    return files


def _select_files(
    data: Mapping[str, bytes], items: Iterable[KeyToPath], mode: int, where: str, *, optional: bool
) -> dict[str, File]:
    """Return the files of a volume: one for each key, or one for each of `items` if there are any.

    A file is at the item's path, or else has the key's name.

    where: the name of the object, for errors.

    Raises `VolumeError` for a missing key unless `optional`.
    """
    wanted = tuple(items)
    if not wanted:
        return {_check_path(key): File(value, mode) for key, value in data.items()}
    files = {}
    for item in wanted:
        if item.key in data:
            files[_check_path(item.path)] = File(data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise VolumeError(f"{where} references non-existent config key: {item.key}", waits=True)
    return files


def _check_path(path: str) -> str:
    """Return the normal form of a relative path. Raises `VolumeError` if the path leaves the volume."""
    normal = posixpath.normpath(path)
    if not path or posixpath.isabs(path) or normal in (".", "..") or normal.startswith("../") or "\0" in path:
        raise VolumeError(f"path {path!r}: must be relative and stay within the volume")
    if normal.split("/")[0].startswith(".."):
        raise VolumeError(f"path {path!r}: must not start with '..'")
    return normal


def _fill_in_mode(mode: int | None) -> int:
    return _DEFAULT_MODE if mode is None else mode & 0o7777
