"""Compute the status of a pod as its node reports it: phase, conditions, the state of every container. Pure.

Messages and rules are the kubelet's. A condition keeps its transition time unless its status changes. Conditions of
other writers (gates, DisruptionTarget) are not included, because the status is written as a strategic merge patch,
which keeps them.
"""

from collections.abc import Iterator

import msgspec

from muster.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from muster.api.ours.embedded import CLUSTER_STOPPED
from muster.api.pods import FINISHED_PHASES, SHUTDOWN_MESSAGE, find_condition, is_sidecar
from muster.cluster.nodes.pod.conditions import make_condition, whole_seconds
from muster.cluster.nodes.pod.facts import Attempt, ContainerFacts, Exit, Now, PodFacts, Trouble
from muster.cluster.nodes.pod.rules import (
    FENCED_MESSAGE,
    PodEnd,
    backoff_seconds,
    find_failed_init,
    has_finished,
    is_backing_off,
    is_fenced,
    is_initialized,
    lets_next_start,
    should_restart,
)

# The kubelet's limit for all termination messages of a pod. Each container has an equal share.
MESSAGE_BYTES = 12 * 1024
# The length of a condition's message if the whole status does not fit into the pod's object.
_SHORT_MESSAGE = 256
SHUTDOWN_REASON = "Terminated"
INTERRUPTED_MESSAGE = "The node was down, and what ran of the pod is gone."


def status_of(pod: Pod, facts: PodFacts, end: PodEnd | None, now: Now, *, over: bool) -> PodStatus:
    """Return the status of the pod.

    end: why the pod must terminate; None if it need not.
    over: whether the pod has no processes, and none will start.
    """
    phase = phase_of(pod, facts, end, over=over)
    containers = tuple(_make_container_status(pod, container, facts, now) for container in pod.spec.containers)
    inits = tuple(_make_container_status(pod, container, facts, now) for container in pod.spec.init_containers)
    conditions = _make_conditions(pod, facts, phase, (*inits, *containers), now)
    shows_end = over and phase == "Failed" and end is not None
    return PodStatus(
        observed_generation=pod.metadata.generation,
        phase=phase,
        conditions=tuple(conditions),
        reason=(end.reason if shows_end and end else "") or pod.status.reason * (pod.status.phase in FINISHED_PHASES),
        message=(end.message if shows_end and end else "")
        or pod.status.message * (pod.status.phase in FINISHED_PHASES),
        host_ip=facts.host_address,
        host_ips=(HostIP(ip=facts.host_address),) if facts.host_address else (),
        pod_ip=facts.address if facts.prepared or over else "",
        pod_ips=(PodIP(ip=facts.address),) if facts.address and (facts.prepared or over) else (),
        start_time=whole_seconds(facts.start_time),
        init_container_statuses=inits,
        container_statuses=containers,
        qos_class=pod.status.qos_class,
    )


def shorten_status(status: PodStatus) -> PodStatus:
    """Return a short status: the pod's phase and conditions, without its containers."""
    conditions = tuple(msgspec.structs.replace(one, message=one.message[:_SHORT_MESSAGE]) for one in status.conditions)
    return msgspec.structs.replace(status, conditions=conditions, container_statuses=(), init_container_statuses=())


def phase_of(pod: Pod, facts: PodFacts, end: PodEnd | None, *, over: bool) -> str:
    """Return the pod's phase: Pending, Running, Succeeded or Failed. The last two are final.

    end: why the pod must terminate; None if it need not.
    over: whether the pod has no processes, and none will start.
    """
    if pod.status.phase in FINISHED_PHASES:
        return pod.status.phase
    exits = [_find_exit(facts.of(container.name)) for container in pod.spec.containers]
    if over:
        forced = end is not None and bool(end.reason)
        succeeded = not forced and find_failed_init(pod, facts) is None and all(e and e.code == 0 for e in exits)
        return "Succeeded" if succeeded else "Failed"
    if not is_initialized(pod, facts):
        return "Pending"
    if any(facts.of(container.name).attempt is None for container in pod.spec.containers):
        return "Pending"
    return "Running"


def _find_exit(facts: ContainerFacts) -> Exit | None:
    return facts.attempt.exit if facts.attempt else None


def _make_container_status(pod: Pod, container: Container, facts: PodFacts, now: Now) -> ContainerStatus:
    """Return the status of a container: waiting, running or terminated, with the end of its previous attempt."""
    container_facts = facts.of(container.name)
    attempt = container_facts.attempt
    share = MESSAGE_BYTES // (len(pod.spec.containers) + len(pod.spec.init_containers))
    devices = facts.devices.get(container.name, ())
    status = ContainerStatus(
        name=container.name, image=container.image, started=False, allocated_resources_status=devices
    )
    if attempt is None:
        waiting = ContainerState(waiting=_make_waiting(pod, container_facts, facts.trouble))
        return msgspec.structs.replace(status, state=waiting)
    previous = (
        ContainerState(terminated=_make_terminated(container_facts.previous, share))
        if container_facts.previous
        else ContainerState()
    )
    status = msgspec.structs.replace(
        status, restart_count=attempt.number, container_id=attempt.container_id, last_state=previous
    )
    if attempt.exit is None:
        running = ContainerState(running=ContainerStateRunning(started_at=whole_seconds(attempt.started_at)))
        ready = attempt.started and attempt.ready
        return msgspec.structs.replace(status, state=running, started=attempt.started, ready=ready)
    ended = ContainerState(terminated=_make_terminated(attempt.exit, share))
    waits = is_backing_off(pod, container, container_facts, now) or _runs_again_after_success(pod, container, attempt)
    if container_facts.trouble is not None or (_may_run(pod, facts) and waits):
        return msgspec.structs.replace(
            status,
            state=ContainerState(waiting=_make_waiting_again(pod, container, container_facts, attempt.exit)),
            last_state=ended,
        )
    regular_init = container in pod.spec.init_containers and not is_sidecar(container)
    return msgspec.structs.replace(status, state=ended, ready=regular_init and attempt.exit.code == 0)


def _runs_again_after_success(pod: Pod, container: Container, attempt: Attempt) -> bool:
    """Return whether a container that exited is restarted after its hook or a probe failed.

    The status of such a container must not be `terminated`, which would be final after exit code 0.
    """
    return bool(attempt.condemned) and attempt.exit is not None and should_restart(pod, container, attempt)


def _may_run(pod: Pod, facts: PodFacts) -> bool:
    """Return whether any container of the pod may still be started or restarted."""
    return facts.ending is None and facts.deleting_since is None and not has_finished(pod, facts)


def _make_waiting(pod: Pod, facts: ContainerFacts, of_pod: Trouble | None) -> ContainerStateWaiting:
    """Return the waiting state of a container that has not started, with its reason.

    of_pod: the trouble of the whole pod; None without trouble. The state then has the kubelet's general reason.
    """
    if facts.trouble is not None:
        return ContainerStateWaiting(reason=facts.trouble.reason, message=facts.trouble.message)
    reason = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    return ContainerStateWaiting(reason=reason, message=of_pod.message if of_pod else "")


def _make_waiting_again(pod: Pod, container: Container, facts: ContainerFacts, exit: Exit) -> ContainerStateWaiting:
    if facts.trouble is not None:
        return ContainerStateWaiting(reason=facts.trouble.reason, message=facts.trouble.message)
    name = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    delay = _format_duration(backoff_seconds(facts, exit))
    message = f"back-off {delay} restarting failed container={container.name} pod={name}"
    return ContainerStateWaiting(reason="CrashLoopBackOff", message=message)


def _make_terminated(exit: Exit, message_bytes: int) -> ContainerStateTerminated:
    return ContainerStateTerminated(
        exit_code=exit.code,
        reason=exit.reason,
        message=exit.message.encode()[:message_bytes].decode(errors="ignore"),
        started_at=whole_seconds(exit.started_at),
        finished_at=whole_seconds(exit.finished_at),
        container_id=exit.container_id,
    )


def _make_conditions(
    pod: Pod, facts: PodFacts, phase: str, statuses: tuple[ContainerStatus, ...], now: Now
) -> Iterator[PodCondition]:
    """Yield the conditions that the node reports for a pod."""
    yield make_condition(pod, now.wall, "PodReadyToStartContainers", facts.prepared and phase not in FINISHED_PHASES)
    yield _make_initialized(pod, facts, phase, now)
    if phase in FINISHED_PHASES:
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        yield make_condition(pod, now.wall, "Ready", False, reason)
        yield make_condition(pod, now.wall, "ContainersReady", False, reason)
    else:
        unready = [status.name for status in _select_statuses_for_readiness(pod, statuses) if not status.ready]
        reason = "ContainersNotReady" if unready else ""
        message = f"containers with unready status: [{' '.join(unready)}]" if unready else ""
        gates = "" if unready else _describe_closed_gates(pod)
        yield make_condition(
            pod,
            now.wall,
            "Ready",
            not unready and not gates,
            "ReadinessGatesNotReady" if gates else reason,
            gates or message,
        )
        yield make_condition(pod, now.wall, "ContainersReady", not unready, reason, message)
    yield make_condition(pod, now.wall, "PodScheduled", True)
    if facts.ending is not None and facts.ending.why in ("shutdown", "left", "interrupted"):
        yield make_condition(pod, now.wall, "DisruptionTarget", True, "TerminationByKubelet", facts.ending.message)
    if facts.ending is not None and facts.ending.why == "shutdown":
        yield make_condition(pod, now.wall, CLUSTER_STOPPED, True, "TerminationByKubelet", SHUTDOWN_MESSAGE)
    elif is_fenced(facts):
        yield make_condition(pod, now.wall, "DisruptionTarget", True, "TerminationByKubelet", FENCED_MESSAGE)


def _select_statuses_for_readiness(pod: Pod, statuses: tuple[ContainerStatus, ...]) -> Iterator[ContainerStatus]:
    """Return the statuses that the pod's readiness depends on: the statuses of main containers and sidecars."""
    passing = {container.name for container in pod.spec.init_containers if not is_sidecar(container)}
    return (status for status in statuses if status.name not in passing)


def _make_initialized(pod: Pod, facts: PodFacts, phase: str, now: Now) -> PodCondition:
    if phase == "Succeeded":
        return make_condition(pod, now.wall, "Initialized", True, "PodCompleted")
    if is_initialized(pod, facts):
        return make_condition(pod, now.wall, "Initialized", True)
    missing = [c.name for c in pod.spec.init_containers if not lets_next_start(c, facts.of(c.name))]
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return make_condition(pod, now.wall, "Initialized", False, "ContainersNotInitialized", message)


def _describe_closed_gates(pod: Pod) -> str:
    """Return a message about the readiness gates that keep the pod from being ready; "" if there are none."""
    problems = []
    for gate in pod.spec.readiness_gates:
        condition = find_condition(pod, gate.condition_type)
        if condition is None:
            problems.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif condition.status != "True":
            what = "is not True" if condition.status == "False" else "is unknown"
            problems.append(f'the status of pod readiness gate "{gate.condition_type}" {what}')
    return ", ".join(problems)


def _format_duration(seconds: float) -> str:
    """Return a duration as Go prints it: 40s, 1m20s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
