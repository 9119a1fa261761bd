"""A pod's volumes on disk, and where its containers see them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from muster.api.core import Container, Pod, Volume, VolumeMount
from muster.cluster.nodes.container.downward import NodeFacts
from muster.cluster.nodes.container.environment import ConfigError, Names, Objects, TooLongError, expand
from muster.cluster.nodes.disk.storage import PodStorage
from muster.cluster.nodes.volumes import files
from muster.cluster.nodes.volumes.contents import (
    MOST_BYTES,
    Content,
    HostPath,
    Tree,
    VolumeError,
    content,
    in_memory,
    references,
    size_of,
)
from muster.cluster.nodes.volumes.mounts import Mount

# So much is written without giving others a turn: a thread takes as long to begin with.
_AT_ONCE = 256 * 1024
# The kernel's limit of a path.
_LONGEST_PATH = 4096


class PodVolumes:
    """The volumes of one pod. `group` owns them, where the pod has an fsGroup and we may give files away."""

    def __init__(self, storage: PodStorage, group: int | None) -> None:
        self._storage = storage
        self._group = group
        self._sources: dict[str, Path] = {}
        self._fixed: set[str] = set()  # those that show objects: containers only read them

    @staticmethod
    def references(pod: Pod) -> Names:
        """The objects that the pod's volumes show."""
        return Names.of(map(references, pod.spec.volumes))

    def complete(self, pod: Pod) -> bool:
        """Whether all volumes were put."""
        return all(volume.name in self._sources for volume in pod.spec.volumes)

    async def put(self, pod: Pod, objects: Objects, around: NodeFacts) -> None:
        """Make all volumes hold what they should. Raises `VolumeError`, with the volume's name in its text."""
        left = MOST_BYTES
        wanted: list[tuple[Volume, Content]] = []
        for volume in pod.spec.volumes:
            with _of(volume):
                found = content(pod, volume, objects, around, left)
                left -= size_of(found)
            wanted.append((volume, found))
        if MOST_BYTES - left <= _AT_ONCE:
            self._write(wanted)
            return
        # Everybody waits for the event loop. Who wants to stop waits until the thread has: it would write what is gone.
        writing = asyncio.create_task(asyncio.to_thread(self._write, wanted))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise

    def _write(self, wanted: Sequence[tuple[Volume, Content]]) -> None:
        for volume, found in wanted:
            with _of(volume):
                if isinstance(found, HostPath):
                    self._sources[volume.name] = files.prepare_host_path(found)
                    continue
                directory = self._storage.volume(volume.name, in_memory=in_memory(volume))
                self._sources[volume.name] = directory
                if isinstance(found, Tree):
                    files.write_tree(directory, found.files, group=self._group)
                    self._fixed.add(volume.name)
                else:
                    files.make_empty(directory, group=self._group)

    def mounts(self, container: Container, variables: Mapping[str, str]) -> list[Mount]:
        """What the container sees of them. Raises `ConfigError`."""
        return [self._mount(container, mount, variables) for mount in container.volume_mounts]

    def _mount(self, container: Container, mount: VolumeMount, variables: Mapping[str, str]) -> Mount:
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
        return Mount(mount.mount_path, str(source), within, is_directory, mount.read_only or fixed)


@contextmanager
def _of(volume: Volume) -> Iterator[None]:
    """Name the volume in what goes wrong."""
    try:
        yield
    except VolumeError as error:
        raise VolumeError(_setup_failed(volume.name, str(error)), waits=error.waits) from None
    except OSError as error:
        raise VolumeError(_setup_failed(volume.name, f"{error.filename}: {error.strerror}")) from error


def _setup_failed(volume: str, why: str) -> str:
    return f'MountVolume.SetUp failed for volume "{volume}" : {why}'
