"""CPU, memory and process limits by cgroup v2, where we may make cgroups; where not, containers run without limits.

A container's processes are in a leaf cgroup of their own, the shim and the server are not: what the kernel kills for
want of memory is the container. The root is given, so everything can be tried on a plain directory.
"""

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from muster.api.core import Container
from muster.api.values.quantity import milli, value

CONTROLLERS = ("cpu", "memory", "pids")
# Scheduling period in microseconds, the kernel's default.
_PERIOD = 100_000
# The kernel refuses less.
_LEAST_QUOTA = 1000
_MOUNT = Path("/sys/fs/cgroup")

log = logging.getLogger(__name__)


class Cgroups:
    """Makes and removes cgroups below a directory in which all controllers are on."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, uid: str, container: str) -> Path:
        """Where a container's processes are."""
        return self._root / uid / container

    def make(self, uid: str, container: str, files: Mapping[str, str]) -> Path:
        """A cgroup for a container, with these limits. Raises OSError."""
        directory = self.path(uid, container)
        directory.parent.mkdir(exist_ok=True)
        _turn_on(directory.parent)
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)
        return directory

    def remove(self, uid: str) -> None:
        """The pod has ended: its cgroups go, with whatever should still be in them."""
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
    """The limits of a container as files of its cgroup: the CPU share by what it asks for, caps by its limits."""
    files = {}
    limit, request = container.resources.limits, container.resources.requests
    if "cpu" in limit and milli(limit["cpu"]):
        files["cpu.max"] = f"{max(milli(limit['cpu']) * _PERIOD // 1000, _LEAST_QUOTA)} {_PERIOD}"
    if "memory" in limit and value(limit["memory"]):
        files["memory.max"] = str(value(limit["memory"]))
        files["memory.oom.group"] = "1"
    cpu = milli(request.get("cpu", limit.get("cpu", 0)))
    if cpu:
        # 1 CPU is 1024 of the old shares, which run from 2 to 262144; weights run from 1 to 10000.
        shares = min(max(cpu * 1024 // 1000, 2), 262144)
        files["cpu.weight"] = str(1 + (shares - 2) * 9999 // 262142)
    return files


def prepare(name: str, mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> Cgroups | str:
    """Our own subtree, or a sentence that says why there is none."""
    if not (mount / "cgroup.controllers").exists():
        return "there is no cgroup v2 hierarchy"
    here = next((line[3:] for line in own.read_text().splitlines() if line.startswith("0::")), "/")
    base = mount / here.lstrip("/")
    missing = set(CONTROLLERS) - set((base / "cgroup.controllers").read_text().split())
    if missing:
        return f"the cgroup lacks the controllers {', '.join(sorted(missing))}"
    try:
        if base != mount:
            _make_room(base, name)
        _turn_on(base)
        root = base / name
        root.mkdir(exist_ok=True)
        _turn_on(root)
    except OSError as error:
        return f"cgroups cannot be made in {base}: {error.strerror}"
    return Cgroups(root)


def _make_room(base: Path, name: str) -> None:
    """A cgroup that has children with controllers may hold no processes: move ourselves to one of the children."""
    leaf = base / f"{name}-server"
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _turn_on(directory: Path) -> None:
    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in CONTROLLERS))
