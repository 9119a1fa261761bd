"""Describe this machine and the resources that this process may use, once at the start of a node."""

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from muster.cluster.nodes.gpus.device import Gpu

_LEAST_FREE = 64 << 20
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class Machine(Struct, frozen=True):
    """The resources of a machine. CPUs are in thousandths, memory and disk in bytes."""

    hostname: str
    milli_cpus: int
    memory: int
    disk: int
    gpus: tuple[Gpu, ...] = ()
    architecture: str = "amd64"
    kernel: str = ""
    os_image: str = ""
    machine_id: str = ""
    boot_id: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def discover(state: Path, gpus: tuple[Gpu, ...] = ()) -> Machine:
    """Return the resources of the machine on which this process runs, with these GPUs.

    state: a path on the disk whose size the node offers.
    """
    disk = os.statvfs(state)
    return Machine(
        hostname=platform.node().lower() or "localhost",
        milli_cpus=_count_milli_cpus(),
        memory=_measure_memory(),
        disk=disk.f_blocks * disk.f_frsize,
        gpus=gpus,
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_read_os_image(Path("/etc/os-release")),
        machine_id=_read_text(Path("/etc/machine-id")),
        boot_id=_read_text(Path("/proc/sys/kernel/random/boot_id")),
    )


def take_part(machine: Machine, number: int, of: int) -> Machine:
    """Return one of several equal parts of a machine. Each GPU is in exactly one part.

    number: the index of the part, from 0.
    of: how many parts there are.
    """
    return replace(
        machine,
        milli_cpus=max(machine.milli_cpus // of, 1),
        memory=machine.memory // of,
        disk=machine.disk // of,
        gpus=machine.gpus[number::of],
    )


def find_full_disk(directories: Iterable[Path]) -> str:
    """Return a sentence such as `the disk of /var/lib/muster is full` for the first full disk; "" if none is full."""
    full = next((one for one in directories if has_full_disk(one)), None)
    return f"the disk of {full} is full" if full is not None else ""


def has_full_disk(directory: Path) -> bool:
    """Return whether the disk is too full for more pods: less than 64 MiB free, or a twentieth of a small disk.

    The kubelet's limit, a tenth, would reserve a terabyte of a large disk, and large disks are often nearly full. A
    missing directory counts as not full.
    """
    try:
        disk = os.statvfs(directory)
    except FileNotFoundError:
        return False
    return disk.f_bavail * disk.f_frsize < min(_LEAST_FREE, disk.f_blocks * disk.f_frsize // 20)


def _count_milli_cpus() -> int:
    """Return the thousandths of CPUs that this process may use: its affinity, capped by its cgroup's quota."""
    cpus = len(os.sched_getaffinity(0)) * 1000
    quota, _, period = _read_text(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cpus = min(cpus, int(quota) * 1000 // int(period))
    return max(cpus, 1)


def _measure_memory() -> int:
    """Return the memory of the machine in bytes, capped by the memory limit of this process's cgroup."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read_text(Path("/sys/fs/cgroup/memory.max"))
    return min(total, int(limit)) if limit.isdigit() else total


def _read_os_image(release: Path) -> str:
    lines = dict(line.split("=", 1) for line in _read_text(release).splitlines() if "=" in line)
    return lines.get("PRETTY_NAME", platform.system()).strip('"')


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
