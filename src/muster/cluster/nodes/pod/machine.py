"""Decides what a node does about one pod, from its spec and what is known of its containers. Pure.

`decide` is called after every change and whenever the time comes that it named. It knows nothing of processes, files or
the API; `pod/runner.py` carries its actions out and reports back by way of new facts. Rules are the kubelet's:

- init containers run one after the other; a sidecar (restartPolicy Always) only has to have started for the next one;
  main containers follow once all are through, and from then on init containers are never looked at again; their shims
  are made while the barrier of their group (KEP-498) runs, and no other init container;
- a container that ended is started again as its restart policy says, the first time at once, then after 10 s, 20 s, ...
  up to 5 minutes; one that ran for 10 minutes begins anew;
- a container whose liveness or startup probe or postStart hook failed is asked to end, killed after the grace period,
  and counts as failed whatever its exit code is;
- a pod ends when its main containers have, when it is deleted, when its deadline has passed, or when the node ends it;
  main containers are asked to end together, then sidecars in reverse order, and all is killed when the grace period is
  over;
- nothing is started in a pod that ends, and a pod has ended only when nothing of it runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

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
    End,
    candidates,
    end_of,
    grace_seconds,
    has_finished,
    is_alive,
    is_backing_off,
    is_initialized,
    is_sidecar_of,
    start_at,
)
from muster.cluster.nodes.pod.status import status_of

# A pod may have thousands of containers; so many of them are made ready to start.
MOST_RESERVED = 8


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What to do, what to say, and when to look again."""

    actions: tuple[Action, ...]
    status: PodStatus
    notes: frozenset[PodNote] = frozenset()
    look_again_in: float | None = None  # seconds
    over: bool = False  # nothing runs and nothing will
    remove: bool = False  # once the status is written, the object is to be removed


def decide(pod: Pod, facts: PodFacts, now: Now) -> PodPlan:
    """The next steps of a pod."""
    end = end_of(pod, facts, now)
    finished = end is not None or has_finished(pod, facts)
    alive = [container for container in _all(pod) if is_alive(facts.of(container.name))]
    over = finished and not alive and not any(facts.of(container.name).starting for container in _all(pod))
    if finished:
        actions = tuple(_ending(pod, facts, end, alive, now))
    elif not facts.prepared:
        actions = () if facts.trouble and now.monotonic < facts.trouble.retry_at else (Prepare(),)
    else:
        actions = (*_running(pod, facts, now), *_reserves(pod, facts))
    status = status_of(pod, facts, end, now, over=over)
    times = [] if over else list(_times(pod, facts, end, finished=finished))
    waits = [time - now.monotonic for time in times if time > now.monotonic]
    return PodPlan(
        actions=actions,
        status=status,
        notes=frozenset(_notes(pod, facts, end, now, finished=finished)),
        look_again_in=min(waits, default=None),
        over=over,
        remove=over and end is not None and end.remove,
    )


def _running(pod: Pod, facts: PodFacts, now: Now) -> Iterator[Action]:
    """Start what is to run, end what is condemned."""
    for container in candidates(pod, facts):
        known = facts.of(container.name)
        time = start_at(pod, container, known)
        if time is not None and time <= now.monotonic:
            yield _start(container, known)
        attempt = known.attempt
        if attempt is None or not attempt.alive or not attempt.condemned:
            continue
        grace = _condemned_grace(pod, attempt)
        if attempt.stopping_since is None:
            yield Stop(container.name, attempt.condemned, grace)
        elif not attempt.killed and now.monotonic >= attempt.stopping_since + grace:
            yield Kill(container.name)


def _reserves(pod: Pod, facts: PodFacts) -> Iterator[Reserve]:
    """While the barrier of its group runs, main containers are made ready to start the moment it opens."""
    steps = [container for container in pod.spec.init_containers if not is_sidecar(container)]
    waits = bool(steps) and steps[-1].name == GROUP_SCHEDULING_INIT and is_alive(facts.of(GROUP_SCHEDULING_INIT))
    if not waits or is_initialized(pod, facts):
        return
    for container in pod.spec.containers[:MOST_RESERVED]:
        known = facts.of(container.name)
        if not known.reserved and not known.starting:
            yield Reserve(container.name)


def _start(container: Container, facts: ContainerFacts) -> Start:
    if facts.attempt is None or facts.attempt.exit is None:
        return Start(container.name, 0, 0)
    anew = facts.attempt.exit.ran_seconds >= BACKOFF_RESET_SECONDS
    return Start(container.name, facts.attempt.number + 1, 1 if anew else facts.restarts + 1)


def _ending(pod: Pod, facts: PodFacts, end: End | None, alive: list[Container], now: Now) -> Iterator[Action]:
    """Ask whose turn it is to end; kill when the time is up."""
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


def _kill_at(pod: Pod, end: End | None, attempt: Attempt) -> float:
    if end is not None:
        return end.kill_at
    return float("inf") if attempt.stopping_since is None else attempt.stopping_since + grace_seconds(pod)


def _times(pod: Pod, facts: PodFacts, end: End | None, *, finished: bool) -> Iterator[float]:
    """All moments at which the plan may change by itself."""
    if finished:
        for container in _all(pod):
            attempt = facts.of(container.name).attempt
            if attempt is not None and attempt.alive and not attempt.killed:
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
    for container in candidates(pod, facts):
        known = facts.of(container.name)
        time = start_at(pod, container, known)
        if time is not None:
            yield time
        attempt = known.attempt
        if attempt and attempt.alive and attempt.stopping_since is not None and not attempt.killed:
            yield attempt.stopping_since + _condemned_grace(pod, attempt)


def _notes(pod: Pod, facts: PodFacts, end: End | None, now: Now, *, finished: bool) -> Iterator[PodNote]:
    """What users should hear of the present state."""
    if end is not None and end.reason:
        yield PodNote("Normal" if end.reason == "DeadlineExceeded" else "Warning", end.reason, end.message)
    if finished:
        return
    if facts.trouble is not None and not facts.prepared:
        yield PodNote("Warning", facts.trouble.reason, facts.trouble.message)
    for container in candidates(pod, facts):
        known = facts.of(container.name)
        number = known.attempt.number if known.attempt else 0
        if known.trouble is not None:
            yield PodNote("Warning", "Failed", f"Error: {known.trouble.message}", container.name, number)
        elif is_backing_off(pod, container, known, now):
            name = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
            message = f"Back-off restarting failed container {container.name} in pod {name}"
            yield PodNote("Warning", "BackOff", message, container.name, number)


def _condemned_grace(pod: Pod, attempt: Attempt) -> float:
    given = attempt.condemned_grace_seconds
    return float(grace_seconds(pod) if given is None else given)


def _all(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)
