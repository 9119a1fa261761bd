"""Decide what a node does about one pod, from its spec and the state of its containers. Pure.

The node calls `decide` after every change and at each time that the last plan named. This module knows nothing of
processes, files or the API. `pod/runner.py` executes the actions and reports the results as new facts. The rules are
the kubelet's:

- Init containers run one after the other. A sidecar (restartPolicy Always) only needs to have started before the next
  one runs.
- Main containers start when all init containers have finished. From then on init containers are ignored.
- While the barrier of the pod's group is the only init container that runs (jobset KEP-498), the shims of main
  containers are started in advance.
- A container that exited is restarted as its restart policy says: at once the first time, then after 10 s, 20 s, ... up
  to 5 minutes. A run of 10 minutes resets the back-off.
- If a container's liveness probe, startup probe or postStart hook fails, the container is terminated. It is killed
  after the grace period, and counts as failed whatever its exit code is.
- A pod terminates when its main containers have exited, when it is deleted, when its deadline has passed, or when the
  node terminates it. Main containers are terminated together, then sidecars in reverse order. All containers are killed
  when the grace period is over.
- Nothing starts in a pod that terminates. A pod is finished only when it has no processes.
"""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.core import Container, Pod, PodStatus
from muster.api.jobset.names import GROUP_SCHEDULING_INIT
from muster.api.pods import is_sidecar
from muster.cluster.nodes.pod.facts import (
    Action,
    Attempt,
    ContainerFacts,
    Kill,
    Now,
    PodFacts,
    PodNote,
    Prepare,
    Reserve,
    Start,
    Stop,
)
from muster.cluster.nodes.pod.rules import (
    BACKOFF_RESET_SECONDS,
    PodEnd,
    end_of,
    find_start_time,
    find_startable,
    grace_seconds,
    has_finished,
    is_alive,
    is_backing_off,
    is_initialized,
    is_sidecar_of,
)
from muster.cluster.nodes.pod.status import status_of

# The maximum number of containers with a shim started in advance: a pod may have thousands of containers.
MOST_RESERVED = 8


class PodPlan(Struct, frozen=True):
    """A node's plan for a pod: the actions, the status to report, and when to decide again.

    look_again_in: the seconds until the next decision; None to wait for a change.
    over: whether the pod has terminated.
    """

    actions: tuple[Action, ...]
    status: PodStatus
    notes: frozenset[PodNote] = frozenset()
    look_again_in: float | None = None  # seconds
    over: bool = False  # no process runs, and none will start
    remove: bool = False  # the object is deleted once the status is written


def decide(pod: Pod, facts: PodFacts, now: Now) -> PodPlan:
    """Return what to do for a pod now, the status to report, and when to decide again."""
    end = end_of(pod, facts, now)
    finished = end is not None or has_finished(pod, facts)
    alive = [container for container in _list_containers(pod) if is_alive(facts.of(container.name))]
    over = finished and not alive and not any(facts.of(container.name).starting for container in _list_containers(pod))
    if finished:
        actions = tuple(_plan_ending(pod, facts, end, alive, now))
    elif not facts.prepared:
        actions = () if facts.trouble and now.monotonic < facts.trouble.retry_at else (Prepare(),)
    else:
        actions = (*_plan_running(pod, facts, now), *_plan_reserves(pod, facts))
    status = status_of(pod, facts, end, now, over=over)
    times = [] if over else list(_list_times(pod, facts, end, finished=finished))
    waits = [time - now.monotonic for time in times if time > now.monotonic]
    return PodPlan(
        actions=actions,
        status=status,
        notes=frozenset(_list_notes(pod, facts, end, now, finished=finished)),
        look_again_in=min(waits, default=None),
        over=over,
        remove=over and end is not None and end.remove,
    )


def _plan_running(pod: Pod, facts: PodFacts, now: Now) -> Iterator[Action]:
    """Yield the starts that are due, and the stops and kills of containers that must restart."""
    for container in find_startable(pod, facts):
        container_facts = facts.of(container.name)
        time = find_start_time(pod, container, container_facts)
        if time is not None and time <= now.monotonic:
            yield _make_start(container, container_facts)
        attempt = container_facts.attempt
        if attempt is None or not attempt.is_alive or not attempt.condemned:
            continue
        grace = _find_condemned_grace_seconds(pod, attempt)
        if attempt.stopping_since is None:
            yield Stop(container.name, attempt.condemned, grace)
        elif not attempt.killed and now.monotonic >= attempt.stopping_since + grace:
            yield Kill(container.name)


def _plan_reserves(pod: Pod, facts: PodFacts) -> Iterator[Reserve]:
    """Yield the main containers whose shims to start while the barrier of the pod's group runs.

    A container with such a shim can start the moment the barrier opens.
    """
    steps = [container for container in pod.spec.init_containers if not is_sidecar(container)]
    waits = bool(steps) and steps[-1].name == GROUP_SCHEDULING_INIT and is_alive(facts.of(GROUP_SCHEDULING_INIT))
    if not waits or is_initialized(pod, facts):
        return
    for container in pod.spec.containers[:MOST_RESERVED]:
        container_facts = facts.of(container.name)
        if not container_facts.reserved and not container_facts.starting:
            yield Reserve(container.name)


def _make_start(container: Container, facts: ContainerFacts) -> Start:
    if facts.attempt is None or facts.attempt.exit is None:
        return Start(container.name, 0, 0)
    is_reset = facts.attempt.exit.ran_seconds >= BACKOFF_RESET_SECONDS
    return Start(container.name, facts.attempt.number + 1, 1 if is_reset else facts.restarts + 1)


def _plan_ending(pod: Pod, facts: PodFacts, end: PodEnd | None, alive: list[Container], now: Now) -> Iterator[Action]:
    """Yield stops for the containers that must terminate next, and kills when the grace period is over.

    end: why the pod must terminate; None if it has finished its work.
    alive: the containers with processes.
    """
    grace = end.grace_seconds if end else float(grace_seconds(pod))
    sidecars = [container for container in alive if is_sidecar_of(pod, container)]
    others = [container for container in alive if container not in sidecars]
    for container in alive:
        attempt = facts.of(container.name).attempt
        assert attempt is not None
        turn = container in others or (not others and container is sidecars[-1])
        if turn and attempt.stopping_since is None:
            yield Stop(container.name, f"Stopping container {container.name}", grace)
        if not attempt.killed and now.monotonic >= _kill_at(pod, end, attempt):
            yield Kill(container.name)


def _kill_at(pod: Pod, end: PodEnd | None, attempt: Attempt) -> float:
    if end is not None:
        return end.kill_at
    return float("inf") if attempt.stopping_since is None else attempt.stopping_since + grace_seconds(pod)


def _list_times(pod: Pod, facts: PodFacts, end: PodEnd | None, *, finished: bool) -> Iterator[float]:
    """Yield the monotonic times at which the plan may change even if nothing else happens.

    finished: whether the pod is terminating or terminated.
    """
    if finished:
        for container in _list_containers(pod):
            attempt = facts.of(container.name).attempt
            if attempt is not None and attempt.is_alive and not attempt.killed:
                kill_at = _kill_at(pod, end, attempt)
                if kill_at != float("inf"):
                    yield kill_at
        return
    if facts.deadline is not None:
        yield facts.deadline
    if not facts.prepared:
        if facts.trouble:
            yield facts.trouble.retry_at
        return
    for container in find_startable(pod, facts):
        container_facts = facts.of(container.name)
        time = find_start_time(pod, container, container_facts)
        if time is not None:
            yield time
        attempt = container_facts.attempt
        if attempt and attempt.is_alive and attempt.stopping_since is not None and not attempt.killed:
            yield attempt.stopping_since + _find_condemned_grace_seconds(pod, attempt)


def _list_notes(pod: Pod, facts: PodFacts, end: PodEnd | None, now: Now, *, finished: bool) -> Iterator[PodNote]:
    """Yield the events for users about the current state of the pod.

    end: why the pod must terminate; None if it need not.
    finished: whether the pod is terminating or terminated.
    """
    if end is not None and end.reason:
        yield PodNote("Normal" if end.reason == "DeadlineExceeded" else "Warning", end.reason, end.message)
    if finished:
        return
    if facts.trouble is not None and not facts.prepared:
        yield PodNote("Warning", facts.trouble.reason, facts.trouble.message)
    for container in find_startable(pod, facts):
        container_facts = facts.of(container.name)
        number = container_facts.attempt.number if container_facts.attempt else 0
        if container_facts.trouble is not None:
            yield PodNote("Warning", "Failed", f"Error: {container_facts.trouble.message}", container.name, number)
        elif is_backing_off(pod, container, container_facts, now):
            name = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
            message = f"Back-off restarting failed container {container.name} in pod {name}"
            yield PodNote("Warning", "BackOff", message, container.name, number)


def _find_condemned_grace_seconds(pod: Pod, attempt: Attempt) -> float:
    own_seconds = attempt.condemned_grace_seconds
    return float(grace_seconds(pod) if own_seconds is None else own_seconds)


def _list_containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)
