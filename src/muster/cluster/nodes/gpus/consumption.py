"""Decide each container's use of the GPUs, from the drivers' reports on GPUs and on processes. Pure.

A GPU's load counts for the container to which the GPU is assigned, if that container has a process on it. Memory counts
for the container whose process allocated it, on any GPU. If a driver does not report processes, both count for the
container to which the GPU is assigned.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from muster.cluster.nodeconnection import GpuUse
from muster.cluster.nodes.machine.consumption import Key


class GpuProcess(NamedTuple):
    """A process on a GPU, by its PID on the machine.

    memory: the GPU memory of the process in bytes; None if the driver does not report it.
    """

    pid: int
    memory: int | None


class GpuState(NamedTuple):
    """A driver's report on a GPU.

    busy: the share of the last moments in which the GPU worked, in thousandths.
    memory: the GPU memory in use, in bytes.
    processes: the processes on the GPU; None if the driver does not report processes.
    """

    busy: int
    memory: int
    processes: Sequence[GpuProcess] | None = None


def attribute_use(
    states: Mapping[str, GpuState], held: Mapping[Key, Collection[str]], trees: Mapping[Key, Collection[int]]
) -> dict[Key, GpuUse]:
    """Return the GPU use of each container that has a GPU assigned, or has a process on a GPU.

    states: the drivers' reports, by GPU name.
    held: the names of the GPUs that are assigned to each container.
    trees: the PIDs of each container's processes.
    """
    owners = {pid: key for key, pids in trees.items() for pid in pids}
    use = {key: GpuUse() for key, names in held.items() if names}
    for name, state in states.items():
        holder = next((key for key, names in held.items() if name in names), None)
        if state.processes is None:
            if holder is not None:
                use[holder] += GpuUse(state.busy, state.memory)
            continue
        found = _group_by_container(state.processes, owners)
        for key, processes in found.items():
            use[key] = use.get(key, GpuUse()) + GpuUse(0, _sum_memory(processes, state, is_alone=len(found) == 1))
        if holder in found:
            use[holder] += GpuUse(state.busy)
    return use


def _group_by_container(processes: Iterable[GpuProcess], owners: Mapping[int, Key]) -> dict[Key, list[GpuProcess]]:
    groups: dict[Key, list[GpuProcess]] = {}
    for process in processes:
        if process.pid in owners:
            groups.setdefault(owners[process.pid], []).append(process)
    return groups


def _sum_memory(processes: Iterable[GpuProcess], state: GpuState, *, is_alone: bool) -> int:
    """Return the GPU memory of a container's processes, in bytes.

    If the driver omits the memory of some, return the sum of the others, or, if the container is alone on the GPU, the
    memory in use on the whole GPU.
    """
    sizes = [process.memory for process in processes]
    measured = [size for size in sizes if size is not None]
    return sum(measured) if len(measured) == len(sizes) else state.memory if is_alone else sum(measured)
