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
