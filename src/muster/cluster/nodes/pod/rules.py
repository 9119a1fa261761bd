"""The rules of pods that `machine` and `status` share: when a pod terminates, and when containers restart. Pure."""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.core import Container, Pod
from muster.api.pods import is_finished, is_sidecar
from muster.cluster.nodes.pod.facts import Attempt, ContainerFacts, Exit, Now, PodFacts
from muster.cluster.nodes.shim.fence import FENCED, MESSAGE

DEFAULT_GRACE_SECONDS = 30
BACKOFF_FIRST_SECONDS, BACKOFF_LIMIT_SECONDS = 10.0, 300.0
# A run of this length resets the back-off.
BACKOFF_RESET_SECONDS = 600.0
# The server's reason for pods of lost nodes.
NODE_LOST_REASON = "NodeLost"
FENCED_MESSAGE = MESSAGE
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class PodEnd(Struct, frozen=True):
    """The reason why a pod must terminate, and the time when its processes are killed.

    reason, message: for the pod's status.
    kill_at: when to kill the pod's processes, by the monotonic clock.
    """

    kill_at: float
    grace_seconds: float
    reason: str = ""
    message: str = ""
    remove: bool = False  # the pod's object is deleted once the pod has ended


def end_of(pod: Pod, facts: PodFacts, now: Now) -> PodEnd | None:
    """Return why and when the pod must terminate although its containers run; None if it may continue.

    Of several ends, the earliest determines the time, and the first one with a reason determines the reason.
    """
    grace = grace_seconds(pod)
    ends = []
    if facts.ending is not None:
        ending = facts.ending
        allowed = ending.grace_seconds if ending.why not in ("shutdown", "left") else min(ending.grace_seconds, grace)
        ends.append(PodEnd(ending.since + allowed, allowed, ending.reason, ending.message))
    if (fenced := _find_fenced_exit(facts)) is not None:
        ends.append(PodEnd(fenced.finished, 0.0, NODE_LOST_REASON, FENCED_MESSAGE))
    if is_finished(pod):  # another writer finished the pod, so nobody waits for its processes
        ends.append(PodEnd(now.monotonic, 0.0))
    if facts.deadline is not None and now.monotonic >= facts.deadline:
        ends.append(PodEnd(facts.deadline + grace, grace, "DeadlineExceeded", DEADLINE_MESSAGE))
    if facts.deleting_since is not None:
        own_seconds = pod.metadata.deletion_grace_period_seconds
        allowed = float(grace if own_seconds is None else own_seconds)
        ends.append(PodEnd(facts.deleting_since + allowed, allowed, remove=True))
    if not ends:
        return None
    first = min(ends, key=lambda end: end.kill_at)
    with_reason = next((end for end in ends if end.reason), first)
    return PodEnd(
        first.kill_at, first.grace_seconds, with_reason.reason, with_reason.message, any(end.remove for end in ends)
    )


def is_fenced(facts: PodFacts) -> bool:
    """Return whether the pod terminates because its node could not reach the server for too long."""
    return (facts.ending is not None and facts.ending.why == "fenced") or _find_fenced_exit(facts) is not None


def _find_fenced_exit(facts: PodFacts) -> Exit | None:
    """Return the exit of the first container that its shim killed because of the fence; None if there is none."""
    exits = (one.attempt.exit for one in facts.containers.values() if one.attempt is not None)
    return next((exit for exit in exits if exit is not None and exit.reason == FENCED), None)


def has_finished(pod: Pod, facts: PodFacts) -> bool:
    """Return whether the pod's work is done or has failed, so that at most sidecars still run."""
    if find_failed_init(pod, facts) is not None:
        return True
    return all(_has_ended(pod, container, facts.of(container.name)) for container in pod.spec.containers)


def find_failed_init(pod: Pod, facts: PodFacts) -> Container | None:
    """Return the init container that failed and will not be restarted; None if there is none."""
    for container in pod.spec.init_containers:
        attempt = facts.of(container.name).attempt
        if is_sidecar(container) or attempt is None or attempt.exit is None or attempt.exit.code == 0:
            continue
        if not should_restart(pod, container, attempt):
            return container
    return None


def is_initialized(pod: Pod, facts: PodFacts) -> bool:
    """Return whether the main containers may run.

    They may if all sidecars have started and all other init containers have succeeded, or if a main container has
    already run.
    """
    if any(facts.of(container.name).attempt for container in pod.spec.containers):
        return True
    return all(lets_next_start(container, facts.of(container.name)) for container in pod.spec.init_containers)


def should_restart(pod: Pod, container: Container, attempt: Attempt) -> bool:
    """Return whether a container that exited is restarted."""
    assert attempt.exit is not None
    code = attempt.exit.code
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if rule.action == "Restart" and codes and (code in codes.values) == (codes.operator == "In"):
            return True
    policy = container.restart_policy or pod.spec.restart_policy or "Always"
    is_init = any(container is other for other in pod.spec.init_containers)
    if policy == "Never" or (is_init and not is_sidecar(container) and code == 0):
        return False
    return policy == "Always" or code != 0 or bool(attempt.condemned)


def backoff_seconds(facts: ContainerFacts, exit: Exit) -> float:
    """Return for how many seconds after its exit a container waits before it is restarted."""
    if facts.restarts == 0 or exit.ran_seconds >= BACKOFF_RESET_SECONDS:
        return 0.0
    return min(BACKOFF_FIRST_SECONDS * 2.0 ** min(facts.restarts - 1, 10), BACKOFF_LIMIT_SECONDS)


def grace_seconds(pod: Pod) -> int:
    """Return the pod's termination grace period, or the default of 30 seconds."""
    seconds = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if seconds is None else seconds


def find_start_time(pod: Pod, container: Container, facts: ContainerFacts) -> float | None:
    """Return the monotonic time at which a container is due to start; None if it must not start.

    A time in the past means at once.
    """
    if facts.starting or is_alive(facts):
        return None
    attempt = facts.attempt
    times = [facts.trouble.retry_at] if facts.trouble else [float("-inf")]
    if attempt is not None:
        assert attempt.exit is not None
        if not should_restart(pod, container, attempt):
            return None
        times.append(attempt.exit.finished + backoff_seconds(facts, attempt.exit))
    return max(times)


def find_startable(pod: Pod, facts: PodFacts) -> Iterator[Container]:
    """Yield the containers that may run now, provided that the pod does not terminate."""
    if not is_initialized(pod, facts):
        for container in pod.spec.init_containers:
            if is_sidecar(container) or not lets_next_start(container, facts.of(container.name)):
                yield container
            if not lets_next_start(container, facts.of(container.name)):
                return
        return
    yield from (container for container in pod.spec.init_containers if is_sidecar(container))
    yield from pod.spec.containers


def is_backing_off(pod: Pod, container: Container, facts: ContainerFacts, now: Now) -> bool:
    """Return whether a container that exited still waits for its restart."""
    if facts.attempt is None:
        return False
    time = find_start_time(pod, container, facts)
    return time is not None and time > now.monotonic


def _has_ended(pod: Pod, container: Container, facts: ContainerFacts) -> bool:
    """Return whether a container has exited and will not be restarted."""
    attempt = facts.attempt
    if attempt is None or attempt.exit is None or facts.starting:
        return False
    return not should_restart(pod, container, attempt)


def lets_next_start(container: Container, facts: ContainerFacts) -> bool:
    """Return whether the init container after `container` may start."""
    attempt = facts.attempt
    if attempt is None:
        return False
    if is_sidecar(container):
        return attempt.is_alive and attempt.started
    return attempt.exit is not None and attempt.exit.code == 0


def is_alive(facts: ContainerFacts) -> bool:
    """Return whether the container has an attempt that has not exited."""
    return facts.attempt is not None and facts.attempt.is_alive


def is_sidecar_of(pod: Pod, container: Container) -> bool:
    """Return whether the container is one of the pod's sidecars."""
    return is_sidecar(container) and any(container is other for other in pod.spec.init_containers)
