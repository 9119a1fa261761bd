"""Reads what containers use: from their cgroups, or else from the tree of processes below their shims."""

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from muster.cluster.nodeconnection import Reading

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class _Process(NamedTuple):
    """The facts of one process in /proc. `ticks` includes the time of children that it has waited for."""

    parent: int
    ticks: int
    pages: int


class Metered(NamedTuple):
    """A running container: its shim's pid, and its cgroup if it has one."""

    pid: int
    cgroup: Path | None = None


def read_usage(containers: Mapping[tuple[str, str], Metered], proc: Path = _PROC) -> dict[tuple[str, str], Reading]:
    """Return what each container has used so far; those that have ended meanwhile are missing."""
    readings: dict[tuple[str, str], Reading] = {}
    others = {}
    for key, container in containers.items():
        reading = _read_cgroup(container.cgroup) if container.cgroup is not None else None
        if reading is not None:
            readings[key] = reading
        else:
            others[key] = container.pid
    if others:
        processes = dict(_list_processes(proc))
        children = defaultdict(list)
        for pid, process in processes.items():
            children[process.parent].append(pid)
        readings |= {
            key: _sum_readings(_walk_tree(pid, children), processes) for key, pid in others.items() if pid in processes
        }
    return readings


def _read_cgroup(directory: Path) -> Reading | None:
    try:
        lines = (directory / "cpu.stat").read_text().splitlines()
        memory = int((directory / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    microseconds = next((int(line.split()[1]) for line in lines if line.startswith("usage_usec ")), 0)
    return Reading(microseconds / 1e6, memory)


def _list_processes(proc: Path) -> Iterator[tuple[int, _Process]]:
    for entry in os.scandir(proc):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):  # the process has ended
                # The name of a process may contain blanks and brackets.
                fields = (proc / entry.name / "stat").read_text(errors="replace").rpartition(")")[2].split()
                yield int(entry.name), _Process(int(fields[1]), sum(map(int, fields[11:15])), int(fields[21]))


def _walk_tree(root: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    pending = [root]
    while pending:
        pid = pending.pop()
        yield pid
        pending += children.get(pid, ())


def _sum_readings(pids: Iterable[int], processes: Mapping[int, _Process]) -> Reading:
    processes_in_tree = [processes[pid] for pid in pids]
    return Reading(
        sum(one.ticks for one in processes_in_tree) / _TICKS, sum(one.pages for one in processes_in_tree) * _PAGE
    )
