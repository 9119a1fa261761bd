"""Limit CPU, memory and processes by cgroups if the node may make them: by v2, else by the controllers of v1.

If the node may not, it samples the memory of containers (`sampling.py`), and assigns them CPUs (`cpus.py`). A
container's processes are in a leaf cgroup of their own, without the shim and the server. So the kernel kills only the
container when memory runs out. Functions take the root as an argument, so that tests can use a plain directory.
"""

import contextlib
import logging
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from muster.api.core import Container
from muster.api.pods import memory_limit
from muster.api.values.quantity import parse_thousandths

CONTROLLERS = ("cpu", "memory", "pids")
# The controllers of v1 that the node uses. The last only measures CPU.
OLD_CONTROLLERS = ("memory", "cpu", "cpuacct")
# The scheduling period in microseconds, the kernel's default.
_PERIOD = 100_000
# The smallest quota that the kernel accepts.
_LEAST_QUOTA = 1000
# A kernel without accounting of swap lacks these files.
_SWAP, _OLD_SWAP = "memory.swap.max", "memory.memsw.limit_in_bytes"
_MOUNT = Path("/sys/fs/cgroup")
# The cgroup of a server that shares its parent with the cgroups of nodes; systemd starts a service in it.
SERVER_GROUP = "muster-server"

log = logging.getLogger(__name__)


class Root(NamedTuple):
    """One of the node's own cgroups, which contains the cgroups of the containers in one hierarchy.

    It has the names of its controllers, and the version of the hierarchy: 1 or 2.
    """

    path: Path
    controllers: frozenset[str]
    version: int = 2


class Cgroups:
    """The cgroups for the containers of a node. Each container has one cgroup in each hierarchy of cgroups."""

    def __init__(self, roots: Iterable[Root]) -> None:
        self._roots = tuple(roots)
        self._busy: list[Path] = []  # the cgroups of ended pods whose killed processes had not ended yet

    @property
    def version(self) -> int:
        """The version of the hierarchies: 1 or 2."""
        return self._roots[0].version

    def has(self, controller: str) -> bool:
        """Return whether the cgroups have a controller."""
        return any(controller in root.controllers for root in self._roots)

    def paths(self, uid: str, container: str) -> tuple[Path, ...]:
        """Return the paths of a container's cgroups."""
        return tuple(root.path / uid / container for root in self._roots)

    def make(self, uid: str, container: Container) -> tuple[Path, ...]:
        """Make a container's cgroups with its limits, and return their paths. Raises OSError."""
        for root, directory in zip(self._roots, self.paths(uid, container.name), strict=True):
            directory.parent.mkdir(exist_ok=True)
            if root.version > 1:
                _enable_controllers(directory.parent)
            directory.mkdir(exist_ok=True)
            files = list_limits(container) if root.version > 1 else old_limits(container, root.controllers)
            for name, text in files.items():
                if name not in (_SWAP, _OLD_SWAP) or (directory / name).exists():
                    (directory / name).write_text(text)
        return self.paths(uid, container.name)

    def remove(self, uid: str) -> None:
        """Remove the cgroups of a pod that has ended, and kill whatever is still in them."""
        for root in self._roots:
            pod = root.path / uid
            for directory in (*_list_groups(pod), pod):
                if directory.is_dir():
                    _kill_all(directory)
                    _remove(directory)
                    if directory.is_dir():
                        self._busy.append(directory)

    def close(self) -> None:
        """Remove the remaining cgroups of ended pods, and the node's own cgroups if no pod has one.

        A container that is about to start may have a cgroup without processes, which stays.
        """
        for directory in self._busy:
            if directory.is_dir():
                _remove(directory)
        for root in self._roots:
            _remove(root.path)


def list_limits(container: Container) -> dict[str, str]:
    """Return a container's limits as the files of its cgroup, with their content.

    The CPU weight follows its request; the maxima follow its limits.
    """
    files = {}
    if quota := _find_quota(container):
        files["cpu.max"] = f"{quota} {_PERIOD}"
    if memory := memory_limit(container):
        files["memory.max"] = str(memory)
        files["memory.oom.group"] = "1"
        files[_SWAP] = "0"  # the limit is of memory and swap together
    if shares := _find_shares(container):
        # Shares run from 2 to 262144, and weights from 1 to 10000.
        files["cpu.weight"] = str(1 + (shares - 2) * 9999 // 262142)
    return files


def old_limits(container: Container, controllers: Iterable[str]) -> dict[str, str]:
    """Return a container's limits as the files of its cgroup in v1, with their content, in the order to write them."""
    files = {}
    if "memory" in controllers and (memory := memory_limit(container)):
        files["memory.limit_in_bytes"] = str(memory)
        files[_OLD_SWAP] = str(memory)  # of memory and swap together, never below the limit of memory
    if "cpu" in controllers:
        if quota := _find_quota(container):
            files["cpu.cfs_period_us"] = str(_PERIOD)
            files["cpu.cfs_quota_us"] = str(quota)
        if shares := _find_shares(container):
            files["cpu.shares"] = str(shares)
    return files


def prepare(name: str, mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> Cgroups | str:
    """Return the node's own cgroups, made if missing, or a sentence that says why they cannot be made."""
    if (mount / "cgroup.controllers").exists():
        return _prepare_unified(name, mount, own)
    return _prepare_old(name, mount, own)


def _prepare_unified(name: str, mount: Path, own: Path) -> Cgroups | str:
    group = mount / _find_own_group(own, "").lstrip("/")
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
    return Cgroups([Root(root, frozenset(CONTROLLERS))])


def _prepare_old(name: str, mount: Path, own: Path) -> Cgroups | str:
    """Return the node's cgroups in the hierarchies of v1 that it may write, or a sentence that says why in none."""
    roots: dict[Path, frozenset[str]] = {}
    trouble = "there is no cgroup v2 hierarchy"
    for controller in OLD_CONTROLLERS:
        hierarchy = mount / controller
        if (hierarchy / "cgroup.procs").exists():
            group = hierarchy / _find_own_group(own, controller).lstrip("/")
            # A container may see the path of its cgroup on the machine, but only its own cgroup below the mount.
            root = (group if group.is_dir() else hierarchy).resolve() / name
            try:
                root.mkdir(exist_ok=True)
            except OSError as error:
                trouble = f"cgroups cannot be made in {root.parent}: {error.strerror}"
            else:
                # A kernel with co-mounted controllers shows one hierarchy under several names.
                roots[root] = roots.get(root, frozenset()) | {controller}
    if not any({"memory", "cpu"} & controllers for controllers in roots.values()):
        return trouble
    return Cgroups(Root(root, controllers, version=1) for root, controllers in roots.items())


def _find_own_group(own: Path, controller: str) -> str:
    """Return the path of this process's cgroup in a hierarchy. controller: "" for the hierarchy of v2."""
    for line in own.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return "/"


def _find_quota(container: Container) -> int:
    """Return the microseconds of a period that the container may run; 0 for no limit."""
    limit = parse_thousandths(container.resources.limits.get("cpu", 0))
    return max(limit * _PERIOD // 1000, _LEAST_QUOTA) if limit else 0


def _find_shares(container: Container) -> int:
    """Return the container's CPU weight in shares of v1, of which 1 CPU is 1024; 0 if it requests none."""
    resources = container.resources
    cpu = parse_thousandths(resources.requests.get("cpu", resources.limits.get("cpu", 0)))
    return min(max(cpu * 1024 // 1000, 2), 262144) if cpu else 0


def _list_groups(directory: Path) -> list[Path]:
    """Return the paths of the cgroups directly below one; none if that one is removed."""
    return [path for path in directory.iterdir() if path.is_dir()] if directory.is_dir() else []


def _kill_all(directory: Path) -> None:
    """Kill each process of a cgroup. Cgroups of version 1 have no file that kills all at once."""
    with contextlib.suppress(OSError):
        if (directory / "cgroup.kill").exists():
            (directory / "cgroup.kill").write_text("1")
            return
        for pid in (directory / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def _remove(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError as error:  # processes take a moment to end; the stop of the node tries again
        log.debug("cgroup %s is not gone yet: %s", directory, error)


def _make_room(base: Path) -> None:
    """Move this process to a child of its cgroup.

    A cgroup of version 2 may hold no processes if its children have controllers.
    """
    leaf = base / SERVER_GROUP
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _enable_controllers(directory: Path) -> None:
    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in CONTROLLERS))
