"""Read the usage of containers: from their cgroups, or else from the process trees below their shims."""

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from muster.cluster.nodeconnection import Reading
from muster.cluster.nodes.volumes.sizes import measure

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")
_READ_BYTES = 4096
# How many fields of a process's status are read.
_FIELDS = 22
# The parent of the kernel's threads, of which a large machine has thousands.
_KTHREADD = 2

Key: TypeAlias = tuple[str, str]
"""The pod's UID, and the container's name."""

NO_THRESHOLDS: Mapping[Key, int] = MappingProxyType({})


class _Process(NamedTuple):
    """The state of one process, from /proc.

    ticks: its CPU time in clock ticks, including the time of children that it has waited for.
    pages: its resident memory in pages.
    """

    parent: int
    ticks: int
    pages: int


class Metered(NamedTuple):
    """A running container whose usage is to be measured.

    pid: the PID of the container's shim.
    cgroups: the container's cgroups, if it has any.
    memory_limit: in bytes; 0 means no limit.
    memory_volumes: directories in a tmpfs whose files count as the container's memory, if no cgroup counts them.
    """

    pid: int
    cgroups: tuple[Path, ...] = ()
    memory_limit: int = 0
    memory_volumes: tuple[Path, ...] = ()


class _Share(NamedTuple):
    """The memory of a process in bytes. Each page that several processes share counts in equal parts for each.

    shared: the part of this memory that belongs to tmpfs files and other shared memory.
    """

    memory: int
    shared: int = 0


def read_usage(
    containers: Mapping[Key, Metered], thresholds: Mapping[Key, int] = NO_THRESHOLDS, proc: Path = _PROC
) -> dict[Key, Reading]:
    """Return the usage of each container since its start; omit containers that have exited meanwhile.

    thresholds: bytes of memory by container, 0 by default. Below its threshold, a container's memory may count a page
    once for each process that shares it. Above it, the page counts once, which takes the kernel longer.
    """
    readings: dict[Key, Reading] = {}
    others = {}
    for key, container in containers.items():
        reading = _read_cgroups(container.cgroups)
        if reading is not None:
            readings[key] = reading
        else:
            others[key] = container
    if others:
        processes = dict(_list_processes(proc))
        swapped = _read_used_swap(proc)
        children = _find_children(processes)
        for key, container in others.items():
            if container.pid in processes:
                tree = list(_walk_tree(container.pid, children))
                ticks = sum(processes[one].ticks for one in tree)
                # The shim's own memory does not belong to the container.
                resident = {one: processes[one].pages * _PAGE for one in tree[1:]}
                files = sum(map(measure, container.memory_volumes))
                memory = sum(resident.values()) + files
                if memory + swapped > thresholds.get(key, 0):
                    shares = [_read_share(proc, one, whole) for one, whole in resident.items()]
                    # The process's share already contains the files of the volumes that it has mapped.
                    unmapped = max(files - sum(share.shared for share in shares), 0)
                    memory = sum(share.memory for share in shares) + unmapped
                readings[key] = Reading(ticks / _TICKS, memory)
    return readings


def list_trees(containers: Mapping[Key, Metered], proc: Path = _PROC) -> dict[Key, frozenset[int]]:
    """Return the PIDs of each container's processes, without the container's shim."""
    children = _find_children(dict(_list_processes(proc)))
    return {key: frozenset(_walk_tree(one.pid, children)) - {one.pid} for key, one in containers.items()}


def _find_children(processes: Mapping[int, _Process]) -> Mapping[int, Sequence[int]]:
    children = defaultdict(list)
    for pid, process in processes.items():
        children[process.parent].append(pid)
    return children


def _read_cgroups(directories: Iterable[Path]) -> Reading | None:
    """Return the usage of a container; None if its cgroups do not measure both CPU and memory."""
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    for directory in directories:
        stat = _read_words(f"{directory}/cpu.stat")
        if b"usage_usec" in stat:
            cpu_seconds = int(stat[stat.index(b"usage_usec") + 1]) / 1e6
        elif total := _read_words(f"{directory}/cpuacct.usage"):  # cgroup v1, in nanoseconds
            cpu_seconds = int(total[0]) / 1e9
        held = _read_words(f"{directory}/memory.current") or _read_words(f"{directory}/memory.usage_in_bytes")
        if held:
            memory_bytes = int(held[0])
    return Reading(cpu_seconds, memory_bytes) if cpu_seconds is not None and memory_bytes is not None else None


def _list_processes(proc: Path) -> Iterator[tuple[int, _Process]]:
    """Yield the processes of the machine, without the kernel's own threads."""
    base = os.fspath(proc)
    kernels = _list_kernel_threads(base)
    for name in os.listdir(base):  # noqa: PTH208 - a Path for each process would take longer than all the rest
        if name.isdecimal() and name.encode() not in kernels:
            try:
                # The name of a process may contain blanks and brackets.
                fields = _read(f"{base}/{name}/stat").rpartition(b")")[2].split(None, _FIELDS)
                _, parent, *_, user, system, waited_user, waited_system = fields[:15]
                ticks = int(user) + int(system) + int(waited_user) + int(waited_system)
                yield int(name), _Process(int(parent), ticks, int(fields[21]))
            except (OSError, ValueError, IndexError):  # the process has ended
                continue


def _list_kernel_threads(base: str) -> frozenset[bytes]:
    """Return the PIDs of the kernel's own threads; empty within a PID namespace, which hides them."""
    if _read_words(f"{base}/{_KTHREADD}/stat")[1:4] != [b"(kthreadd)", b"S", b"0"]:
        return frozenset()
    return frozenset(_read_words(f"{base}/{_KTHREADD}/task/{_KTHREADD}/children"))


def _read_share(proc: Path, pid: int, resident: int) -> _Share:
    """Return the memory of a process: its own pages, its part of shared pages, and swapped pages.

    resident: its resident memory, the result if the kernel reports no details.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = [line.split() for line in _read(f"{proc}/{pid}/smaps_rollup").splitlines()]
        sizes = {line[0]: int(line[1]) * 1024 for line in lines if line[0] in (b"Pss:", b"SwapPss:", b"Pss_Shmem:")}
        if sizes:
            return _Share(sizes.get(b"Pss:", 0) + sizes.get(b"SwapPss:", 0), sizes.get(b"Pss_Shmem:", 0))
    return _Share(resident)


def _read_used_swap(proc: Path) -> int:
    """Return how much of the machine's swap is in use, in bytes."""
    words = _read_words(f"{proc}/meminfo")
    sizes = {name: int(size) for name, size in pairwise(words) if name.startswith(b"Swap")}
    return (sizes.get(b"SwapTotal:", 0) - sizes.get(b"SwapFree:", 0)) * 1024


def _read_words(path: str) -> Sequence[bytes]:
    """Return the words of a file; no words if the file cannot be read."""
    words: list[bytes] = []
    with contextlib.suppress(OSError), open(path, "rb") as file:
        words += file.read().split()
    return words


def _read(path: str) -> bytes:
    """Return the first bytes of a file of the kernel, which contain all of a small file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _READ_BYTES)
    finally:
        os.close(descriptor)


def _walk_tree(root: int, children: Mapping[int, Sequence[int]]) -> Iterator[int]:
    pending = [root]
    while pending:
        pid = pending.pop()
        yield pid
        pending += children.get(pid, ())
