"""What emptyDir volumes may hold and do hold. Reading does not follow links."""

import contextlib
import os
import stat
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
    """Return how many bytes of its disk a directory takes, without what we may not read.

    As with `du -x`, a file with several links counts once, and what is mounted there does not count.
    """
    try:
        disk = directory.stat().st_dev
    except OSError:
        return 0
    total, pending = 0, [os.fspath(directory)]
    linked: set[int] = set()  # the inodes of files with several links
    while pending:
        for entry in _list_entries(pending.pop()):
            with contextlib.suppress(OSError):  # it is gone meanwhile
                status = entry.stat(follow_symlinks=False)
                if status.st_dev != disk or status.st_ino in linked:
                    continue
                total += status.st_blocks * _BLOCK
                if stat.S_ISDIR(status.st_mode):
                    pending.append(entry.path)
                elif status.st_nlink > 1:
                    linked.add(status.st_ino)
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
