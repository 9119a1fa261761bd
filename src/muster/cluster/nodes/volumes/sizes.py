"""Measure emptyDir volumes against their size limits. Reading does not follow links."""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from muster.api.core import Pod
from muster.api.values.quantity import format_canonical, parse_whole_units

_BLOCK = 512
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The kernel's limit for the length of a path. It also bounds the work for deep trees.
_LONGEST_PATH = 4096


def size_limits(pod: Pod) -> dict[str, int]:
    """Return the size limits of a pod's emptyDir volumes in bytes, by volume."""
    sizes = {
        one.name: parse_whole_units(one.empty_dir.size_limit or 0)
        for one in pod.spec.volumes
        if one.empty_dir is not None
    }
    return {name: size for name, size in sizes.items() if size > 0}


def charged_volumes(pod: Pod) -> dict[str, tuple[str, ...]]:
    """Return, by container, the emptyDir volumes in memory whose files count as the container's memory.

    The files of a volume that several containers mount count for the first of these containers.
    """
    unassigned = {
        one.name for one in pod.spec.volumes if one.empty_dir is not None and one.empty_dir.medium == "Memory"
    }
    charged: dict[str, tuple[str, ...]] = {}
    if unassigned:
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            mounted = tuple(dict.fromkeys(one.name for one in container.volume_mounts if one.name in unassigned))
            charged |= {container.name: mounted} if mounted else {}
            unassigned -= set(mounted)
    return charged


def find_overfull(limits: Mapping[str, int], sources: Mapping[str, Path]) -> str:
    """Return the name of the first volume that exceeds its limit; "" if none does.

    limits: the size limits in bytes, by volume.
    sources: the directories of the existing volumes, by volume.
    """
    volumes = (name for name in limits if name in sources)
    return next((name for name in volumes if measure(sources[name]) > limits[name]), "")


def measure(directory: Path) -> int:
    """Return the disk usage of a directory in bytes, without parts that this process may not read.

    As with `du -x`, a file with several links counts once, and other file systems mounted there do not count.
    """
    total, pending, disk = 0, [""], None
    linked: set[int] = set()  # the inodes of files with several links
    while pending:
        path = pending.pop()
        with (
            contextlib.suppress(OSError),
            _open_below(directory, path) as descriptor,
            os.scandir(descriptor) as entries,
        ):
            disk = os.fstat(descriptor).st_dev if disk is None else disk
            for entry in entries:
                with contextlib.suppress(OSError):  # the file was removed meanwhile
                    status = entry.stat(follow_symlinks=False)
                    if status.st_dev != disk or status.st_ino in linked:
                        continue
                    total += status.st_blocks * _BLOCK
                    if stat.S_ISDIR(status.st_mode) and len(path) < _LONGEST_PATH:
                        pending.append(f"{path}{entry.name}/")
                    elif status.st_nlink > 1:
                        linked.add(status.st_ino)
    return total


@contextlib.contextmanager
def _open_below(root: Path, path: str) -> Iterator[int]:
    """Open a directory below a root, following no link, as the pod may have just made one. Raises OSError."""
    descriptor = os.open(root, _DIRECTORY)
    try:
        for name in path.split("/")[:-1]:
            inner = os.open(name, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def describe_overfull(pod: Pod, name: str) -> str:
    """Return the message about a pod that is evicted because of this volume, in the kubelet's words."""
    volume = next(one for one in pod.spec.volumes if one.name == name)
    assert volume.empty_dir is not None, "only such volumes have a limit"
    return (
        f'Usage of EmptyDir volume "{name}" exceeds the limit "{format_canonical(volume.empty_dir.size_limit or 0)}". '
    )
