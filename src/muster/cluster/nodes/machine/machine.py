"""What this machine is and has, as far as we may use it: asked once, at the start of a node."""

import os
import platform
from dataclasses import dataclass, field, replace
from pathlib import Path

from muster.cluster.nodes.machine import gpus

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine. CPUs in thousandths, memory and disk in bytes."""

    hostname: str
    milli_cpus: int
    memory: int
    disk: int
    gpus: tuple[str, ...] = ()
    architecture: str = "amd64"
    kernel: str = ""
    os_image: str = ""
    machine_id: str = ""
    boot_id: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def discover(state: Path) -> Machine:
    """The machine that we run on. `state` is on the disk that counts."""
    disk = os.statvfs(state)
    return Machine(
        hostname=platform.node().lower() or "localhost",
        milli_cpus=_milli_cpus(),
        memory=_memory(),
        disk=disk.f_blocks * disk.f_frsize,
        gpus=gpus.discover(),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(Path("/etc/os-release")),
        machine_id=_text(Path("/etc/machine-id")),
        boot_id=_text(Path("/proc/sys/kernel/random/boot_id")),
    )


def part(machine: Machine, number: int, of: int) -> Machine:
    """One of several equal parts of a machine, for nodes that share it. GPUs are not shared."""
    return replace(
        machine,
        milli_cpus=max(machine.milli_cpus // of, 1),
        memory=machine.memory // of,
        disk=machine.disk // of,
        gpus=machine.gpus[number::of],
    )


def free_disk_share(state: Path) -> float:
    """How much of the disk is free for us, from 0 to 1."""
    disk = os.statvfs(state)
    return disk.f_bavail / disk.f_blocks if disk.f_blocks else 1.0


def _milli_cpus() -> int:
    """The CPUs that we may run on, or a container's share of them."""
    cpus = len(os.sched_getaffinity(0)) * 1000
    quota, _, period = _text(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cpus = min(cpus, int(quota) * 1000 // int(period))
    return max(cpus, 1)


def _memory() -> int:
    """The machine's memory, or a container's share of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _text(Path("/sys/fs/cgroup/memory.max"))
    return min(total, int(limit)) if limit.isdigit() else total


def _os_image(release: Path) -> str:
    lines = dict(line.split("=", 1) for line in _text(release).splitlines() if "=" in line)
    return lines.get("PRETTY_NAME", platform.system()).strip('"')


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
