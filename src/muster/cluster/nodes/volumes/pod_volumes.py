"""Write a pod's volumes to disk, and plan their mounts in its containers."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from muster.api.core import Container, Pod, Volume, VolumeMount
from muster.cluster.nodes.container.downward import NodeFacts
from muster.cluster.nodes.container.environment import ConfigError, Names, Objects, TooLongError, expand
from muster.cluster.nodes.disk.complaints import describe_os_error
from muster.cluster.nodes.disk.storage import PodStorage
from muster.cluster.nodes.volumes import files
from muster.cluster.nodes.volumes.contents import (
    MOST_BYTES,
    Claimed,
    Content,
    HostPath,
    Tree,
    VolumeError,
    is_in_memory,
    list_references,
    make_content,
    size_of,
)
from muster.cluster.nodes.volumes.mounts import Mount

# The maximum number of bytes to write in the event loop. A thread takes as long to start.
_AT_ONCE = 256 * 1024
# The kernel's limit of a path.
_LONGEST_PATH = 4096


class PodVolumes:
    """The volumes of one pod on the node's disk.

    group: the group that owns them, if the pod has an fsGroup and this process may change owners; otherwise None.
    """

    def __init__(self, storage: PodStorage, group: int | None) -> None:
        self._storage = storage
        self._group = group
        self._sources: dict[str, Path] = {}
        self._fixed: set[str] = set()  # volumes with objects, which containers can only read
        self._read_only: set[str] = set()  # volumes of claims that the pod only reads

    @staticmethod
    def references(pod: Pod) -> Names:
        """Return the names of the objects that the pod's volumes refer to."""
        return Names.of(map(list_references, pod.spec.volumes))

    def is_complete(self, pod: Pod) -> bool:
        """Return whether all volumes of the pod are written."""
        return all(volume.name in self._sources for volume in pod.spec.volumes)

    def sources(self) -> dict[str, Path]:
        """Return the directories of those volumes that are written, by volume."""
        return dict(self._sources)

    async def put(self, pod: Pod, objects: Objects, around: NodeFacts) -> None:
        """Write the desired content of all volumes. Raises `VolumeError`, with the volume's name in its text."""
        bytes_left = MOST_BYTES
        contents: list[tuple[Volume, Content]] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None and volume.name in self._sources:
                continue  # a claim's volume stays for the pod's life, even after the claim is deleted
            with _name_volume_in_errors(volume):
                volume_content = make_content(pod, volume, objects, around, bytes_left)
                bytes_left -= size_of(volume_content)
            contents.append((volume, volume_content))
        if MOST_BYTES - bytes_left <= _AT_ONCE:
            self._write_volumes(contents)
            return
        # A thread writes, so that the event loop does not block. A cancelled caller waits for the thread, which would
        # otherwise write to a removed volume.
        writing = asyncio.create_task(asyncio.to_thread(self._write_volumes, contents))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise

    def _write_volumes(self, volumes: Sequence[tuple[Volume, Content]]) -> None:
        for volume, volume_content in volumes:
            with _name_volume_in_errors(volume):
                if isinstance(volume_content, HostPath):
                    self._sources[volume.name] = files.prepare_host_path(volume_content)
                    continue
                if isinstance(volume_content, Claimed):
                    directory = Path(volume_content.path)
                    files.make_empty(directory, group=self._group)
                    self._sources[volume.name] = directory
                    if volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only:
                        self._read_only.add(volume.name)
                    continue
                directory = self._storage.volume(volume.name, in_memory=is_in_memory(volume))
                self._sources[volume.name] = directory
                if isinstance(volume_content, Tree):
                    files.write_tree(directory, volume_content.files, group=self._group)
                    self._fixed.add(volume.name)
                else:
                    files.make_empty(directory, group=self._group)

    def mounts(self, container: Container, variables: Mapping[str, str]) -> list[Mount]:
        """Return the mounts of the volumes in the container. Raises `ConfigError`."""
        return [self._plan_mount(container, mount, variables) for mount in container.volume_mounts]

    def _plan_mount(self, container: Container, mount: VolumeMount, variables: Mapping[str, str]) -> Mount:
        source = self._sources.get(mount.name)
        if source is None:
            raise ConfigError(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        failed = f'failed to prepare subPath for volumeMount "{mount.name}" of container "{container.name}"'
        try:
            path = mount.sub_path or expand(mount.sub_path_expr, variables, "subPathExpr", _LONGEST_PATH)
        except TooLongError:
            raise ConfigError(f"{failed}: the path would have more than {_LONGEST_PATH} bytes") from None
        if not mount.sub_path and "$(" in path:
            raise ConfigError(f"missing value for {path!r}")
        fixed = mount.name in self._fixed
        try:
            within = files.resolve_within(source, path, create=not fixed) if path else ""
        except VolumeError as error:
            raise ConfigError(f"{failed}: {error}") from None
        is_directory = (source / within).is_dir()
        read_only = mount.read_only or fixed or mount.name in self._read_only
        return Mount(mount.mount_path, str(source), within, is_directory, read_only)


@contextmanager
def _name_volume_in_errors(volume: Volume) -> Iterator[None]:
    """Raise errors of the `with` block as a `VolumeError` that contains the volume's name."""
    try:
        yield
    except VolumeError as error:
        raise VolumeError(_make_setup_message(volume.name, str(error)), waits=error.waits) from None
    except OSError as error:
        raise VolumeError(_make_setup_message(volume.name, describe_os_error(error))) from error


def _make_setup_message(volume: str, why: str) -> str:
    return f'MountVolume.SetUp failed for volume "{volume}" : {why}'
