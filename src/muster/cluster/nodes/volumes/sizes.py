"""What emptyDir volumes may hold and do hold. Reading does not follow links."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from muster.api.core import Pod
from muster.api.values.quantity import canonical, value

_BLOCK = 512
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The kernel's limit of a path. It also bounds the work for deep trees.
_LONGEST_PATH = 4096


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
    total, pending = 0, [""]
    while pending:
        path = pending.pop()
        with contextlib.suppress(OSError), _opened(directory, path) as descriptor, os.scandir(descriptor) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it is gone meanwhile
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                if entry.is_dir(follow_symlinks=False) and len(path) < _LONGEST_PATH:
                    pending.append(f"{path}{entry.name}/")
    return total


@contextlib.contextmanager
def _opened(root: Path, path: str) -> Iterator[int]:
    """Open a directory below a root. Raises OSError, also for a link on the way: a pod may just have put it there."""
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
    """Return why the pod is evicted, in the kubelet's words."""
    volume = next(one for one in pod.spec.volumes if one.name == name)
    assert volume.empty_dir is not None, "only such volumes have a limit"
    return f'Usage of EmptyDir volume "{name}" exceeds the limit "{canonical(volume.empty_dir.size_limit or 0)}". '
