"""The columns and cells of pods. Pure.

The column Status has one word. It is the phase, unless one of these gives another word; a later one overrules the ones
before it:

1. the reason in the status,
2. scheduling gates,
3. the first init container that has not completed,
4. the containers, from the last to the first, after the pod has been initialized,
5. a deletion, unless the phase is final.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.conditions import is_true
from muster.api.core import ContainerStatus, Pod
from muster.cluster.apiserver.tables.printer import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Printer,
    RowCondition,
    format_age,
    make_wide_column,
)

_COMPLETED = {
    "Succeeded": RowCondition("Succeeded", "The pod has completed successfully."),
    "Failed": RowCondition("Failed", "The pod failed."),
}


class _Containers(Struct, frozen=True):
    """The sums over a group of containers.

    word: the word for the column Status from these containers; "" for none.
    restarted: when one of the containers last restarted; None if none did.
    """

    word: str = ""
    ready: int = 0
    restarts: int = 0
    restarted: datetime | None = None

    def __add__(self, other: "_Containers") -> "_Containers":
        times = [time for time in (self.restarted, other.restarted) if time]
        return _Containers(
            other.word or self.word,
            self.ready + other.ready,
            self.restarts + other.restarts,
            max(times, default=None),
        )


def make_cells(pod: Pod, now: datetime) -> Cells:
    """Return the cells of a pod: name, ready containers, status, restarts and age, then the cells of `-o wide`."""
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    init, running_sidecars = _sum_init_containers(pod, sidecars)
    if init.word and not is_true(pod.status.conditions, "Initialized"):
        seen = init
    else:
        seen = _Containers(init.word) + running_sidecars + _sum_main_containers(pod)
    restarts = str(seen.restarts)
    if seen.restarts and seen.restarted:
        restarts = f"{restarts} ({format_age(seen.restarted, now)} ago)"
    addresses = pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip
    return [
        pod.metadata.name,
        f"{seen.ready}/{len(pod.spec.containers) + len(sidecars)}",
        _find_status_word(pod, seen.word),
        restarts,
        format_age(pod.metadata.creation_timestamp, now),
        addresses or NONE,
        pod.spec.node_name or NONE,
        pod.status.nominated_node_name or NONE,
        _format_readiness_gates(pod),
    ]


def _find_status_word(pod: Pod, seen: str) -> str:
    status = pod.status
    if pod.metadata.deletion_timestamp:
        if status.reason == "NodeLost":
            return "Unknown"
        if status.phase not in _COMPLETED:
            return "Terminating"
    if seen:
        return seen
    if any(c.type == "PodScheduled" and c.reason == "SchedulingGated" for c in status.conditions):
        return "SchedulingGated"
    return status.reason or status.phase


def _sum_init_containers(pod: Pod, sidecars: set[str]) -> tuple[_Containers, _Containers]:
    """Return the sums over the init containers up to the first incomplete one, and the sums over their sidecars alone.

    The first sums have the word for the column Status, which the incomplete init container determines.

    sidecars: the names of the sidecars.
    """
    everything, started = _Containers(), _Containers()
    for index, container in enumerate(pod.status.init_container_statuses):
        sidecar = container.name in sidecars
        counted = _count_restarts(container)
        state = container.state
        if state.terminated and state.terminated.exit_code == 0:
            word = ""
        elif sidecar and container.started:
            counted += _Containers(ready=int(container.ready))
            word = ""
        elif state.terminated:
            word = f"Init:{_find_end_word(container)}"
        elif state.waiting and state.waiting.reason not in ("", "PodInitializing"):
            word = f"Init:{state.waiting.reason}"
        else:
            word = f"Init:{index}/{len(pod.spec.init_containers)}"
        everything += counted
        if sidecar:
            started += counted
        if word:
            return everything + _Containers(word), started
    return everything, started


def _sum_main_containers(pod: Pod) -> _Containers:
    total = _Containers()
    running = False
    for container in reversed(pod.status.container_statuses):
        state = container.state
        total += _count_restarts(container)
        if state.waiting and state.waiting.reason:
            total += _Containers(state.waiting.reason)
        elif state.terminated:
            total += _Containers(_find_end_word(container))
        elif container.ready and state.running:
            running = True
            total += _Containers(ready=1)
    if total.word == "Completed" and running:
        total += _Containers("Running" if is_true(pod.status.conditions, "Ready") else "NotReady")
    return total


def _count_restarts(container: ContainerStatus) -> _Containers:
    last = container.last_state.terminated
    return _Containers(restarts=container.restart_count, restarted=last.finished_at if last else None)


def _find_end_word(container: ContainerStatus) -> str:
    end = container.state.terminated
    assert end is not None
    return end.reason or (f"Signal:{end.signal}" if end.signal else f"ExitCode:{end.exit_code}")


def _format_readiness_gates(pod: Pod) -> str:
    gates = pod.spec.readiness_gates
    return (
        f"{sum(is_true(pod.status.conditions, gate.condition_type) for gate in gates)}/{len(gates)}" if gates else NONE
    )


PODS = Printer(
    columns=(
        NAME,
        Column(name="Ready", description="How many of the pod's containers are ready."),
        Column(name="Status", description="What the pod's containers are doing, all in all."),
        Column(name="Restarts", description="How many times the pod's containers were restarted."),
        AGE,
        make_wide_column("IP", "Address of the pod."),
        make_wide_column("Node", "Node that the pod runs on."),
        make_wide_column("Nominated Node", "Node on which room is being made for the pod."),
        make_wide_column("Readiness Gates", "How many of the further conditions of being ready hold."),
    ),
    cells=make_cells,
    completed=lambda pod: _COMPLETED.get(pod.status.phase),
)
