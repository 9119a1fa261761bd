"""Limits CPU, memory and processes by cgroup v2 where the node may make cgroups.

Where it may not, the node samples the memory of containers (`sampling.py`), and CPU is not limited. A container's
processes are in a leaf cgroup of their own; the shim and the server are not. So the kernel kills the container when
memory runs out. Functions take the root as an argument, so tests can use a plain directory.
"""

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from muster.api.core import Container
from muster.api.pods import memory_limit
from muster.api.values.quantity import milli

CONTROLLERS = ("cpu", "memory", "pids")
# The scheduling period in microseconds, the kernel's default.
_PERIOD = 100_000
# The smallest quota that the kernel accepts.
_LEAST_QUOTA = 1000
# A kernel without accounting of swap lacks this file.
_SWAP = "memory.swap.max"
_MOUNT = Path("/sys/fs/cgroup")
# The cgroup of a server that shares its parent with the cgroups of nodes. systemd starts a service there.
SERVER_GROUP = "muster-server"

log = logging.getLogger(__name__)


class Cgroups:
    """The cgroups below a directory in which all controllers are on."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, uid: str, container: str) -> Path:
        """Return the cgroup of a container's processes."""
        return self._root / uid / container

    def make(self, uid: str, container: str, files: Mapping[str, str]) -> Path:
        """Make a container's cgroup with these limits. Raises OSError."""
        directory = self.path(uid, container)
        directory.parent.mkdir(exist_ok=True)
        _enable_controllers(directory.parent)
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            if name != _SWAP or (directory / name).exists():
                (directory / name).write_text(text)
        return directory

    def remove(self, uid: str) -> None:
        """Remove the cgroups of a pod that has ended, and kill whatever is still in them."""
        pod = self._root / uid
        if not pod.is_dir():
            return
        for directory in (*(path for path in pod.iterdir() if path.is_dir()), pod):
            with contextlib.suppress(OSError):
                (directory / "cgroup.kill").write_text("1")
            try:
                directory.rmdir()
            except OSError as error:  # processes take a moment to go; the next start of the node tries again
                log.debug("cgroup %s is not gone yet: %s", directory, error)


def limits(container: Container) -> dict[str, str]:
    """Return a container's limits as files of its cgroup: the CPU weight from its request, caps from its limits."""
    files = {}
    limit, request = container.resources.limits, container.resources.requests
    if "cpu" in limit and milli(limit["cpu"]):
        files["cpu.max"] = f"{max(milli(limit['cpu']) * _PERIOD // 1000, _LEAST_QUOTA)} {_PERIOD}"
    if memory := memory_limit(container):
        files["memory.max"] = str(memory)
        files["memory.oom.group"] = "1"
        files[_SWAP] = "0"  # the limit is of memory and swap together
    cpu = milli(request.get("cpu", limit.get("cpu", 0)))
    if cpu:
        # 1 CPU is 1024 of the old shares, which run from 2 to 262144; weights run from 1 to 10000.
        shares = min(max(cpu * 1024 // 1000, 2), 262144)
        files["cpu.weight"] = str(1 + (shares - 2) * 9999 // 262142)
    return files


def prepare(name: str, mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> Cgroups | str:
    """Return the node's own subtree of cgroups, made if missing, or a sentence that says why it cannot be made."""
    if not (mount / "cgroup.controllers").exists():
        return "there is no cgroup v2 hierarchy"
    here = next((line[3:] for line in own.read_text().splitlines() if line.startswith("0::")), "/")
    group = mount / here.lstrip("/")
    base = group.parent if group.name == SERVER_GROUP else group
    missing = set(CONTROLLERS) - set((base / "cgroup.controllers").read_text().split())
    if missing:
        return f"the cgroup lacks the controllers {', '.join(sorted(missing))}"
    try:
        if base == group != mount:
            _make_room(base)
        _enable_controllers(base)
        root = base / name
        root.mkdir(exist_ok=True)
        _enable_controllers(root)
    except OSError as error:
        return f"cgroups cannot be made in {base}: {error.strerror}"
    return Cgroups(root)


def _make_room(base: Path) -> None:
    """Move this process to a child cgroup: a cgroup whose children have controllers may hold no processes."""
    leaf = base / SERVER_GROUP
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _enable_controllers(directory: Path) -> None:
    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in CONTROLLERS))
