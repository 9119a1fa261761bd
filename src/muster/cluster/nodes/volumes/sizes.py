"""What emptyDir volumes may hold and do hold. Reading does not follow links."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from muster.api.core import Pod
from muster.api.values.quantity import canonical, value

_BLOCK = 512


def size_limits(pod: Pod) -> dict[str, int]:
    """Return the size limits of a pod's emptyDir volumes in bytes, by volume."""
    sizes = {one.name: value(one.empty_dir.size_limit or 0) for one in pod.spec.volumes if one.empty_dir is not None}
    return {name: size for name, size in sizes.items() if size > 0}


def charged_volumes(pod: Pod) -> dict[str, tuple[str, ...]]:
    """Return the emptyDir volumes in memory whose files count as memory of a container, by container.

    The files of a volume that several containers mount count for the first of them.
    """
    left = {one.name for one in pod.spec.volumes if one.empty_dir is not None and one.empty_dir.medium == "Memory"}
    charged: dict[str, tuple[str, ...]] = {}
    if left:
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            mounted = tuple(dict.fromkeys(one.name for one in container.volume_mounts if one.name in left))
            charged |= {container.name: mounted} if mounted else {}
            left -= set(mounted)
    return charged


def find_overfull(limits: Mapping[str, int], sources: Mapping[str, Path]) -> str:
    """Return the first volume that holds more than its limit; "" if none does.

    sources: the directories of the volumes that are there.
    """
    volumes = (name for name in limits if name in sources)
    return next((name for name in volumes if measure(sources[name]) > limits[name]), "")


def measure(directory: Path) -> int:
    """Return how many bytes of the disk a directory takes, without what we may not read."""
    total, pending = 0, [os.fspath(directory)]
    while pending:
        for entry in _list_entries(pending.pop()):
            with contextlib.suppress(OSError):  # it is gone meanwhile
                total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
    return total


def _list_entries(directory: str) -> list[os.DirEntry[str]]:
    """Return the entries of a directory; none if it is gone, or closed to us."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def describe_overfull(pod: Pod, name: str) -> str:
    """Return why the pod is evicted, in the kubelet's words."""
    volume = next(one for one in pod.spec.volumes if one.name == name)
    assert volume.empty_dir is not None, "only such volumes have a limit"
    return f'Usage of EmptyDir volume "{name}" exceeds the limit "{canonical(volume.empty_dir.size_limit or 0)}". '
