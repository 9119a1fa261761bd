"""Limit CPU and memory by cgroups if the node may make them: by v2, else by the controllers of v1.

If the node may not make cgroups, it samples the memory of containers (`sampling.py`), and assigns them CPUs
(`cpus.py`).

A container's processes are in a leaf cgroup of their own, without the shim and the server. So the kernel kills only the
container when memory runs out. The leaf is in a cgroup of the pod, which competes for CPU time with the cgroups of
other pods. Functions take the root as an argument, so that tests can use a plain directory.

The node's own cgroup is usually below the cgroup of the server. The exception is a service to which systemd delegates
no cgroup, because that cgroup cannot be divided. There a node of root makes its cgroup at the top of the hierarchy, as
the cgroupfs drivers of container engines do. systemd never removes such a cgroup, so the node must. `remove_leftovers`
does so for a killed server.
"""

import contextlib
import logging
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from muster.api.core import Container, Pod
from muster.api.pods import container_requests, memory_limit, pod_requests
from muster.api.values.quantity import parse_thousandths

CONTROLLERS = ("cpu", "memory")
# The controllers of v1 that the node uses. The last only measures CPU.
V1_CONTROLLERS = ("memory", "cpu", "cpuacct")
# The scheduling period in microseconds, the kernel's default.
_PERIOD = 100_000
# The smallest quota that the kernel accepts.
_LEAST_QUOTA = 1000
# The bounds of a weight in shares of v1, of which 1 CPU is 1024.
_LEAST_SHARES, _MOST_SHARES = 2, 262144
# A kernel without accounting of swap lacks these files.
_SWAP, _OLD_SWAP = "memory.swap.max", "memory.memsw.limit_in_bytes"
_MOUNT = Path("/sys/fs/cgroup")
# The cgroup for the server itself, next to the cgroups of its nodes; systemd starts a service in it.
SERVER_GROUP = "muster-server"
_ADVICE = "a service (`muster service install`) has cgroups with systemd 254 or later, and one of root with any systemd"

log = logging.getLogger(__name__)


class Root(NamedTuple):
    """The node's own cgroup in one hierarchy, which contains the cgroups of the containers.

    controllers: the names of the controllers to use.
    version: the version of the hierarchy, 1 or 2.
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
        """Return whether a controller limits the containers."""
        return any(controller in root.controllers for root in self._roots)

    def paths(self, uid: str, container: str) -> tuple[Path, ...]:
        """Return the paths of a container's cgroups, one in each hierarchy."""
        return tuple(root.path / uid / container for root in self._roots)

    def make(self, pod: Pod, container: Container) -> tuple[Path, ...]:
        """Make a container's cgroups with its limits, and return their paths. Raises OSError."""
        cpu = pod_requests(pod.spec).get("cpu", 0)
        paths = self.paths(pod.metadata.uid, container.name)
        for root, directory in zip(self._roots, paths, strict=True):
            for parent in (root.path, directory.parent):  # others may have removed the node's own cgroup
                parent.mkdir(exist_ok=True)
                if root.version > 1:
                    _enable_controllers(parent, root.controllers)
            _write_files(directory.parent, weigh(cpu, root))
            directory.mkdir(exist_ok=True)
            _write_files(directory, list_limits(container, root))
        return paths

    def remove(self, uid: str) -> None:
        """Remove the cgroups of a terminated pod, and kill any remaining processes in them."""
        for root in self._roots:
            pod = root.path / uid
            for directory in (*_list_groups(pod), pod):
                if directory.is_dir():
                    _kill_all(directory)
                    _remove(directory)
                    if directory.is_dir():
                        self._busy.append(directory)

    def close(self) -> None:
        """Remove the remaining cgroups of terminated pods, and the node's own cgroups if they contain no others.

        A container that is about to start may have a cgroup without processes, which stays.
        """
        for directory in self._busy:
            if directory.is_dir():
                _remove(directory)
        for root in self._roots:
            _remove(root.path)


def list_limits(container: Container, root: Root) -> dict[str, str]:
    """Return a container's limits as the names and contents of its cgroup's files, in the order to write them.

    The CPU weight follows the container's request; the maxima follow its limits.
    """
    files: dict[str, str] = {}
    memory = memory_limit(container)
    if "memory" in root.controllers and memory:
        if root.version > 1:
            # The limit is of memory and swap together.
            files |= {"memory.max": str(memory), "memory.oom.group": "1", _SWAP: "0"}
        else:
            # The second limit is of memory and swap together, and the kernel accepts none below the first.
            files |= {"memory.limit_in_bytes": str(memory), _OLD_SWAP: str(memory)}
    quota = _find_quota(container)
    if "cpu" in root.controllers and quota:
        if root.version > 1:
            files["cpu.max"] = f"{quota} {_PERIOD}"
        else:
            files |= {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
    return files | weigh(container_requests(container.resources).get("cpu", 0), root)


def weigh(cpu: int, root: Root) -> dict[str, str]:
    """Return a cgroup's CPU weight as the name and content of its file. cpu: the request in thousandths of a CPU.

    As with the kubelet, a request of 0 gets the smallest weight.
    """
    if "cpu" not in root.controllers:
        return {}
    shares = min(max(cpu * 1024 // 1000, _LEAST_SHARES), _MOST_SHARES)
    if root.version == 1:
        return {"cpu.shares": str(shares)}
    # Weights run from 1 to 10000.
    return {"cpu.weight": str(1 + (shares - _LEAST_SHARES) * 9999 // (_MOST_SHARES - _LEAST_SHARES))}


def name_group(node: str, seed: int) -> str:
    """Return the name of a node's own cgroup.

    seed: a number computed from the path of the node's directory, which distinguishes the nodes of several servers.
    """
    return f"muster-{node}-{seed:08x}"


def prepare(name: str, mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> Cgroups | str:
    """Return the node's own cgroups, or a sentence that says why they cannot be made. Make missing cgroups."""
    if (mount / "cgroup.controllers").exists():
        return _prepare_unified(name, mount, own)
    return _prepare_v1(name, mount, own)


def remove_leftovers(name: str, uids: Iterable[str], mount: Path = _MOUNT) -> None:
    """Remove cgroups that a killed server left at the top of the hierarchies, and kill the processes in them.

    name: the name of the node's own cgroup.
    uids: the UIDs of the node's pods. The cgroups of other pods stay, because a server in another mount namespace, with
    a home of the same path, may use them. systemd itself removes the cgroups within services.
    """
    tops = (mount, *(mount / controller for controller in V1_CONTROLLERS))
    groups = Cgroups(Root(path, frozenset()) for path in (top / name for top in tops) if path.is_dir())
    for uid in uids:
        groups.remove(uid)
    groups.close()


def _prepare_unified(name: str, mount: Path, own: Path) -> Cgroups | str:
    group = mount / _find_own_group(own, "").lstrip("/")
    if group.name == SERVER_GROUP:
        return _prepare_below(group.parent, name)
    if group.suffix != ".service":
        return _prepare_below(group, name, holds_server=group != mount)
    # systemd would start the next server in this cgroup, which the kernel refuses if its children have limits.
    groups = _prepare_below(mount, name)
    if isinstance(groups, str):
        return f"systemd lets no server start again beside running pods in {group.name}, and {groups}"
    return groups


def _prepare_below(base: Path, name: str, *, holds_server: bool = False) -> Cgroups | str:
    """Return the node's cgroups within `base`, or a sentence that says why they cannot be made.

    holds_server: whether this process must leave `base` for a child cgroup of it.
    """
    try:
        controllers = frozenset(CONTROLLERS) & frozenset((base / "cgroup.controllers").read_text().split())
        if not controllers:
            return f"the cgroup has none of the controllers {', '.join(CONTROLLERS)}: {_ADVICE}"
        if holds_server:
            _make_room(base)
        enabled = _enable_available(base, controllers)
        root = base / name
        root.mkdir(exist_ok=True)
        _enable_controllers(root, enabled)
    except OSError as error:
        return f"cgroups cannot be made in {base} ({error.strerror}): {_ADVICE}"
    return Cgroups([Root(root, enabled)])


def _prepare_v1(name: str, mount: Path, own: Path) -> Cgroups | str:
    """Return the node's cgroups in the v1 hierarchies that it may write, or a sentence that says why there are none."""
    controllers_by_root: dict[Path, frozenset[str]] = {}
    trouble = "there is no cgroup v2 hierarchy"
    for controller in V1_CONTROLLERS:
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
                controllers_by_root[root] = controllers_by_root.get(root, frozenset()) | {controller}
    if not any({"memory", "cpu"} & controllers for controllers in controllers_by_root.values()):
        return trouble
    return Cgroups(Root(root, controllers, version=1) for root, controllers in controllers_by_root.items())


def _find_own_group(own: Path, controller: str) -> str:
    """Return the path of this process's cgroup in a hierarchy; "/" if it is in none.

    own: the process's `/proc/PID/cgroup`.
    controller: a controller of the hierarchy; "" for the v2 hierarchy.
    """
    for line in own.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return "/"


def _find_quota(container: Container) -> int:
    """Return how many microseconds of each scheduling period the container may run; 0 for no limit."""
    limit = parse_thousandths(container.resources.limits.get("cpu", 0))
    return max(limit * _PERIOD // 1000, _LEAST_QUOTA) if limit else 0


def _list_groups(directory: Path) -> list[Path]:
    """Return the paths of the cgroups directly within a cgroup; an empty list if that cgroup no longer exists."""
    return [path for path in directory.iterdir() if path.is_dir()] if directory.is_dir() else []


def _kill_all(directory: Path) -> None:
    """Kill each process of a cgroup. Cgroups of version 1 have no file that kills all processes at once."""
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

    A cgroup of version 2 may contain no processes if its children have controllers.
    """
    leaf = base / SERVER_GROUP
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _enable_available(directory: Path, controllers: Iterable[str]) -> frozenset[str]:
    """Enable the controllers that the kernel allows, and return them. Raises OSError if it allows none.

    While some process of the machine has a realtime priority, some kernels refuse only the CPU controller.
    """
    enabled, refusals = set(), []
    for controller in sorted(controllers):
        try:
            _enable_controllers(directory, [controller])
        except OSError as error:
            refusals.append(error)
        else:
            enabled.add(controller)
    if refusals and not enabled:
        raise refusals[0]
    return frozenset(enabled)


def _enable_controllers(directory: Path, controllers: Iterable[str]) -> None:
    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))


def _write_files(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        if name not in (_SWAP, _OLD_SWAP) or (directory / name).exists():
            (directory / name).write_text(text)
