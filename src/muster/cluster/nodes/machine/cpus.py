"""Assign CPUs to containers with a CPU limit, on a node where no cgroup limits CPU.

`choose_cpus` decides and is pure; `Cpus` holds the assignments of the node's pods. A container may run on as many whole
CPUs as its limit needs, and reserves its request on them. Reservations overlap only if that cannot be avoided: if
fractions do not fit together, or if the node offers more CPUs than the machine has.

A container with a limit above its request may also use CPUs that others have reserved. A container without a limit may
run on every CPU.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from muster.api.core import Container, Pod
from muster.api.pods import is_sidecar
from muster.api.values.quantity import parse_thousandths

Reserved: TypeAlias = Mapping[int, int]
"""The CPUs on which a container may run, with the thousandths of each that it reserves."""

_WHOLE: Final = 1000


class CpuDemand(NamedTuple):
    """A container's request and limit of CPU, in thousandths of a CPU."""

    request: int
    limit: int


class Cpus:
    """The CPUs of a node, and the part of each that each pod reserves.

    After a restart of the server, the record of each pod restores its CPUs.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = tuple(sorted(numbers))
        self._held: dict[str, Mapping[str, Reserved]] = {}  # by pod uid and container

    def take(self, uid: str, demands: Mapping[str, CpuDemand]) -> Mapping[str, Reserved]:
        """Reserve CPUs for the containers of a pod; return them by container. A pod with reserved CPUs keeps these.

        demands: the demands by container.
        """
        if uid not in self._held and demands:
            loads = self._sum_loads()
            chosen: dict[str, Reserved] = {}
            for container, demand in demands.items():
                chosen[container] = choose_cpus(demand, loads)
                for number, reserved in chosen[container].items():
                    loads[number] += reserved
            self._held[uid] = chosen
        return self._held.get(uid, {})

    def restore(self, uid: str, cpus: Mapping[str, Reserved]) -> None:
        """Assign the CPUs that a pod had before the restart."""
        if cpus:
            self._held[uid] = cpus

    def release(self, uid: str) -> None:
        """Free the CPUs of a terminated pod."""
        self._held.pop(uid, None)

    def of(self, uid: str, container: str) -> list[int]:
        """Return the CPUs on which a container may run; empty if it may run on all.

        CPUs that the server itself may no longer use are left out.
        """
        return sorted(set(self._held.get(uid, {}).get(container, ())) & set(self._numbers))

    def _sum_loads(self) -> dict[int, int]:
        loads = dict.fromkeys(self._numbers, 0)
        for pod in self._held.values():
            for cpus in pod.values():
                for number, reserved in cpus.items():
                    if number in loads:
                        loads[number] += reserved
        return loads


def choose_cpus(demand: CpuDemand, loads: Mapping[int, int]) -> Reserved:
    """Return the CPUs for a container, each with the thousandths that the container reserves on it.

    loads: the thousandths that other containers have reserved, by CPU.
    """
    least_loaded = sorted(loads, key=lambda number: (loads[number], number))
    whole, rest = divmod(min(demand.request, demand.limit), _WHOLE)
    chosen = dict.fromkeys(least_loaded[:whole], _WHOLE)
    others = [number for number in least_loaded if number not in chosen]
    if rest and others:
        chosen[_find_best_fit(rest, others, loads)] = rest
    width = -(-demand.limit // _WHOLE)
    spare = [number for number in least_loaded if number not in chosen]
    return chosen | dict.fromkeys(spare[: max(width - len(chosen), 0)], 0)


def list_demands(pod: Pod) -> dict[str, CpuDemand]:
    """Return the demands of the containers that have a CPU limit, by container. Raises `QuantityError`.

    An init container that is not a sidecar reserves nothing, because it has exited before the main containers start.
    """
    steps = [container for container in pod.spec.init_containers if not is_sidecar(container)]
    lasting = [container for container in pod.spec.init_containers if is_sidecar(container)]
    demands = {one.name: _read_demand(one) for one in (*pod.spec.containers, *lasting)}
    demands |= {one.name: _read_demand(one)._replace(request=0) for one in steps}
    return {name: demand for name, demand in demands.items() if demand.limit}


def select_part(numbers: Iterable[int], number: int, of: int) -> list[int]:
    """Return the CPUs for one of several nodes on this machine. Nodes share CPUs if there are too few.

    number: the node's index, from 0.
    of: how many nodes there are.
    """
    ordered = sorted(numbers)
    return ordered[number::of] or [ordered[number % len(ordered)]]


def _find_best_fit(rest: int, numbers: Iterable[int], loads: Mapping[int, int]) -> int:
    """Return the fullest CPU that still has room for `rest` thousandths, or else the least loaded CPU."""
    fitting = [number for number in numbers if loads[number] + rest <= _WHOLE]
    if fitting:
        return max(fitting, key=lambda number: (loads[number], -number))
    return min(numbers, key=lambda number: (loads[number], number))


def _read_demand(container: Container) -> CpuDemand:
    limit = container.resources.limits.get("cpu", 0)
    return CpuDemand(parse_thousandths(container.resources.requests.get("cpu", limit)), parse_thousandths(limit))
