"""What is in a pod's volumes: from a volume and the objects that it refers to, to a tree of files. Pure.

`files.py` puts the tree on disk. Messages are upstream's, as they end up in FailedMount events.
"""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
# What the volumes of a pod may show of objects, all together: an object has room for 1 MiB, or for 100,000 empty keys,
# and can be named again and again. Every file is on disk once more, in blocks of this size.
MOST_BYTES = 64 * 1024 * 1024
_BLOCK = 4096


class VolumeError(Exception):
    """The volume cannot be had (now); the text is for the user. `waits`: an object that may still come is missing."""

    def __init__(self, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.waits = waits


@dataclass(frozen=True, slots=True)
class File:
    """One file of a tree."""

    data: bytes
    mode: int = _DEFAULT_MODE


@dataclass(frozen=True, slots=True)
class EmptyDirectory:
    """A directory that begins empty and ends with the pod."""


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path of the machine. `type` says what must be there, or be made."""

    path: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """Files by relative path, replaced all at once when what they come from changes."""

    files: Mapping[str, File] = field(default_factory=dict)


Content = EmptyDirectory | HostPath | Tree


def references(volume: Volume) -> Names:
    """The objects that the volume shows."""
    sources = volume.projected.sources if volume.projected is not None else ()
    config_maps = {source.config_map.name for source in sources if source.config_map is not None}
    secrets = {source.secret.name for source in sources if source.secret is not None}
    if volume.config_map is not None:
        config_maps.add(volume.config_map.name)
    if volume.secret is not None:
        secrets.add(volume.secret.secret_name)
    return Names(frozenset(config_maps), frozenset(secrets))


def in_memory(volume: Volume) -> bool:
    """Whether the volume is kept from the disk, as with the kubelet: it is asked for, or may show a secret."""
    asked = volume.empty_dir is not None and volume.empty_dir.medium == "Memory"
    return asked or volume.secret is not None or volume.projected is not None


def asked_token(projection: ServiceAccountTokenProjection) -> AskedToken:
    """The token that a projection asks for."""
    seconds = projection.expiration_seconds
    return AskedToken(projection.audience, DEFAULT_TOKEN_SECONDS if seconds is None else seconds)


def asked_tokens(pod: Pod) -> list[AskedToken]:
    """All tokens that the pod's volumes ask for."""
    sources = (source for volume in pod.spec.volumes if volume.projected for source in volume.projected.sources)
    tokens = (source.service_account_token for source in sources)
    return list(dict.fromkeys(asked_token(token) for token in tokens if token is not None))


def content(pod: Pod, volume: Volume, objects: Objects, around: NodeFacts, limit: int = MOST_BYTES) -> Content:
    """What the volume holds now, if its files have no more than so many bytes. Raises `VolumeError`."""
    if volume.empty_dir is not None:
        return EmptyDirectory()
    if volume.host_path is not None:
        return HostPath(volume.host_path.path, volume.host_path.type or "")
    if volume.config_map is not None:
        source = volume.config_map
        return _tree(_of_config_map(pod, source, source.name, objects, _mode(source.default_mode)), limit)
    if volume.secret is not None:
        sealed = volume.secret
        return _tree(_of_secret(pod, sealed, sealed.secret_name, objects, _mode(sealed.default_mode)), limit)
    if volume.downward_api is not None:
        facts = volume.downward_api
        return _tree(_of_fields(pod, facts.items, around, _mode(facts.default_mode)), limit)
    if volume.projected is not None:
        mode = _mode(volume.projected.default_mode)
        files: dict[str, File] = {}
        for projection in volume.projected.sources:
            shown = _tree(_of_projection(pod, projection, objects, around, mode), limit)
            limit -= size_of(shown)
            files |= shown.files
        return Tree(files)
    kind = next((name for name in volume.__struct_fields__ if name != "name" and getattr(volume, name)), "unknown")
    raise VolumeError(
        f"process nodes have no volumes of type {wire_name(kind)}; use emptyDir, hostPath, configMap, secret, "
        f"downwardAPI or projected"
    )


def size_of(content: Content) -> int:
    """How many bytes it takes, in whole blocks; what a pod writes itself does not count."""
    files = content.files.values() if isinstance(content, Tree) else ()
    return _BLOCK + sum(max(len(file.data), _BLOCK) for file in files)


def _tree(files: Mapping[str, File], limit: int) -> Tree:
    found = Tree(files)
    if size_of(found) > limit:
        raise VolumeError(
            f"the pod's volumes would show more than {MOST_BYTES} bytes of objects, all together; "
            f"a file takes {_BLOCK} at least"
        )
    return found


def relocated(variables: Mapping[str, str], places: Mapping[str, str]) -> dict[str, str]:
    """The variables of a container whose volumes cannot be mounted: paths in a volume are where that really is.

    places: by mount path, the volume's (or its subPath's) own path on this machine.
    """
    deepest_first = sorted(places, key=len, reverse=True)

    def real(text: str) -> str:
        for mount in deepest_first:
            if text == mount or text.startswith(mount.rstrip("/") + "/"):
                return places[mount] + text[len(mount.rstrip("/")) :]
        return text

    return {name: real(text) for name, text in variables.items()}


def _of_projection(
    pod: Pod, projection: VolumeProjection, objects: Objects, around: NodeFacts, mode: int
) -> dict[str, File]:
    if projection.config_map is not None:
        return _of_config_map(pod, projection.config_map, projection.config_map.name, objects, mode)
    if projection.secret is not None:
        return _of_secret(pod, projection.secret, projection.secret.name, objects, mode)
    if projection.downward_api is not None:
        return _of_fields(pod, projection.downward_api.items, around, mode)
    if projection.service_account_token is not None:
        token = projection.service_account_token
        return {_path(token.path): File(objects.tokens[asked_token(token)].encode(), mode)}
    raise VolumeError(
        "process nodes know the projected sources configMap, secret, downwardAPI and serviceAccountToken only"
    )


def _of_config_map(
    pod: Pod, source: ConfigMapVolumeSource | ConfigMapProjection, name: str, objects: Objects, mode: int
) -> dict[str, File]:
    found: ConfigMap | None = objects.config_maps.get(name)
    if found is None and not source.optional:
        raise VolumeError(f'configmap "{name}" not found', waits=True)
    data = {key: text.encode() for key, text in found.data.items()} | found.binary_data if found else {}
    where = f"configmap {pod.metadata.namespace}/{name}"
    return _files(data, source.items, mode, where, optional=bool(source.optional))


def _of_secret(
    pod: Pod, source: SecretVolumeSource | SecretProjection, name: str, objects: Objects, mode: int
) -> dict[str, File]:
    found: Secret | None = objects.secrets.get(name)
    if found is None and not source.optional:
        raise VolumeError(f'secret "{name}" not found', waits=True)
    where = f"secret {pod.metadata.namespace}/{name}"
    return _files(found.data if found else {}, source.items, mode, where, optional=bool(source.optional))


def _of_fields(pod: Pod, items: Iterable[DownwardAPIVolumeFile], around: NodeFacts, mode: int) -> dict[str, File]:
    containers = {container.name: container for container in (*pod.spec.init_containers, *pod.spec.containers)}
    files = {}
    fields: dict[str, bytes] = {}  # annotations are long, and can be asked for again and again
    for item in items:
        try:
            if item.field_ref is not None:
                path = item.field_ref.field_path
                data = fields.get(path)
                if data is None:
                    data = fields[path] = downward.field(pod, item.field_ref, around).encode()
            elif item.resource_field_ref is not None:
                data = downward.resource(containers, item.resource_field_ref, around).encode()
            else:
                raise VolumeError(f"{item.path}: neither fieldRef nor resourceFieldRef")
        except FieldError as error:
            raise VolumeError(str(error)) from None
        files[_path(item.path)] = File(data, mode if item.mode is None else item.mode)
    return files


def _files(
    data: Mapping[str, bytes], items: Iterable[KeyToPath], mode: int, where: str, *, optional: bool
) -> dict[str, File]:
    """All keys under their own names, or the items' keys where they say."""
    wanted = tuple(items)
    if not wanted:
        return {_path(key): File(value, mode) for key, value in data.items()}
    files = {}
    for item in wanted:
        if item.key in data:
            files[_path(item.path)] = File(data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise VolumeError(f"{where} references non-existent config key: {item.key}", waits=True)
    return files


def _path(path: str) -> str:
    """A path that stays below the volume. Raises `VolumeError`."""
    normal = posixpath.normpath(path)
    if not path or posixpath.isabs(path) or normal in (".", "..") or normal.startswith("../") or "\0" in path:
        raise VolumeError(f"path {path!r}: must be relative and stay within the volume")
    if normal.split("/")[0].startswith(".."):
        raise VolumeError(f"path {path!r}: must not start with '..'")
    return normal


def _mode(mode: int | None) -> int:
    return _DEFAULT_MODE if mode is None else mode & 0o7777
