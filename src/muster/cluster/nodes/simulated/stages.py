"""The rules by which simulated pods change state, as data: a state, a delay, and the next state. Pure.

A pod is in the first stage whose conditions all hold. After the stage's delay, the node writes the stage's next state.
Rules are plain data, like kwok's Stages (`msgspec.convert` makes them). The built-in rules simulate a pod like this:

- It runs and is ready at once, or after the time of the annotation `muster.dev/start-time`.
- With `muster.dev/run-time` (a Go duration, also accepted under kwok's name) it exits after that time, with the exit
  code of `muster.dev/exit-code`. Its restart policy decides whether it is then finished, or runs once more after a
  back-off. Without the annotation it runs for ever.
- After its deletion it exits as if by SIGTERM and its object is removed, at once or after `muster.dev/stop-time`.
"""

import zlib
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from muster.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from muster.api.ours.simulated import EXIT_CODE, RUN_TIME, START_TIME, STOP_TIME
from muster.api.values import durations
from muster.api.values.durations import DurationError
from muster.cluster.nodes.pod.conditions import make_condition
from muster.cluster.nodes.pod.rules import BACKOFF_FIRST_SECONDS, BACKOFF_LIMIT_SECONDS, BACKOFF_RESET_SECONDS

# The exit code of a program that SIGTERM kills.
_TERMINATED_CODE = 143

KWOK_RUN_TIME = "pod-complete.stage.kwok.x-k8s.io/delay"


class _Data(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of the structs into which rules are parsed. An unknown field is an error."""


class FieldCondition(_Data, frozen=True, kw_only=True):
    """A condition on a field of the pod: `metadata.deletionTimestamp`, `metadata.annotations['x']`, `status.phase`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class Delay(_Data, frozen=True, kw_only=True):
    """The duration of a stage: the value of the first annotation that the pod has, or else `seconds`.

    jitter_seconds: the maximum random addition.
    """

    seconds: float = 0.0
    jitter_seconds: float = 0.0
    annotations: tuple[str, ...] = ()


class Next(_Data, frozen=True, kw_only=True):
    """The state of a pod after a stage: the pod runs, exits, or is deleted.

    exit_code: the exit code of a pod that exits, unless an annotation sets another.
    """

    to: Literal["run", "end", "delete"]
    exit_code: int = 0


class Stage(_Data, frozen=True, kw_only=True):
    """A rule of the simulation: which pods are in the stage, how long they stay in it, and their next state."""

    name: str
    match: tuple[FieldCondition, ...]
    next: Next
    delay: Delay = Delay()


DEFAULT_STAGES: tuple[Stage, ...] = (
    Stage(
        name="delete",
        match=(FieldCondition(key="metadata.deletionTimestamp", operator="Exists"),),
        delay=Delay(annotations=(STOP_TIME,)),
        next=Next(to="delete", exit_code=_TERMINATED_CODE),
    ),
    Stage(
        name="start",
        match=(FieldCondition(key="status.phase", operator="NotIn", values=("Running", "Succeeded", "Failed")),),
        delay=Delay(annotations=(START_TIME,)),
        next=Next(to="run"),
    ),
    Stage(
        name="complete",
        match=(
            FieldCondition(key="status.phase", operator="In", values=("Running",)),
            FieldCondition(key=f"metadata.annotations['{RUN_TIME}']", operator="Exists"),
        ),
        delay=Delay(annotations=(RUN_TIME,)),
        next=Next(to="end"),
    ),
    Stage(
        name="complete-as-kwok",
        match=(
            FieldCondition(key="status.phase", operator="In", values=("Running",)),
            FieldCondition(key=f"metadata.annotations['{KWOK_RUN_TIME}']", operator="Exists"),
        ),
        delay=Delay(annotations=(KWOK_RUN_TIME,)),
        next=Next(to="end"),
    ),
)


class PodWrite(msgspec.Struct, frozen=True):
    """The next write for a pod.

    status: the status to write.
    delete: whether to delete the object after that.
    """

    status: PodStatus
    delete: bool = False


def stage_of(pod: Pod, stages: Sequence[Stage]) -> Stage | None:
    """Return the stage that the pod is in; None if its state never changes again."""
    return next((stage for stage in stages if all(_holds(pod, condition) for condition in stage.match)), None)


def delay_seconds(pod: Pod, stage: Stage, fraction: float) -> float:
    """Return for how many seconds the pod stays in the stage, with the back-off before a repeated run.

    fraction: a random number from 0 to 1.
    An unreadable annotation counts as 0.
    """
    seconds = stage.delay.seconds
    for annotation in stage.delay.annotations:
        text = pod.metadata.annotations.get(annotation)
        if text is not None:
            seconds = _parse_duration(text)
            break
    seconds = max(seconds, 0.0) + stage.delay.jitter_seconds * fraction
    return seconds + (_compute_back_off_seconds(pod, seconds) if stage.next.to == "end" else 0.0)


def _compute_back_off_seconds(pod: Pod, ran_seconds: float) -> float:
    """Return the back-off, in seconds, before the current run of a restarted pod's containers.

    The rules follow `pod/rules.py`.

    ran_seconds: how long the last run took.
    """
    restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
    if restarts < 2 or ran_seconds >= BACKOFF_RESET_SECONDS:
        return 0.0
    return min(BACKOFF_FIRST_SECONDS * 2.0 ** min(restarts - 2, 10), BACKOFF_LIMIT_SECONDS)


def advance(pod: Pod, stage: Stage, now: datetime, node_address: str) -> PodWrite:
    """Return the write that moves a pod from a stage to its next state."""
    moment = now.replace(microsecond=0)
    if stage.next.to == "run":
        return PodWrite(_make_running(pod, moment, node_address))
    if stage.next.to == "delete":
        return PodWrite(pod.status if _is_over(pod) else _make_ended(pod, moment, stage.next.exit_code), delete=True)
    code = _find_exit_code(pod, stage.next.exit_code)
    policy = pod.spec.restart_policy or "Always"
    if policy == "Always" or (policy == "OnFailure" and code):
        return PodWrite(_make_restarted(pod, moment, code))
    return PodWrite(_make_ended(pod, moment, code))


def address_of(uid: str) -> str:
    """Return a made-up IP address for a simulated pod, computed from its UID."""
    number = zlib.crc32(uid.encode())
    return f"10.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.{number & 0xFF}"


def _make_running(pod: Pod, now: datetime, node_address: str) -> PodStatus:
    address = address_of(pod.metadata.uid)
    running = ContainerState(running=ContainerStateRunning(started_at=now))
    return msgspec.structs.replace(
        pod.status,
        phase="Running",
        observed_generation=pod.metadata.generation,
        start_time=now,
        host_ip=node_address,
        host_ips=(HostIP(ip=node_address),),
        pod_ip=address,
        pod_ips=(PodIP(ip=address),),
        conditions=_make_conditions(pod, now, ready=True),
        init_container_statuses=tuple(_make_status(c, _make_terminated(now, now, 0)) for c in pod.spec.init_containers),
        container_statuses=tuple(_make_status(c, running, started=True) for c in pod.spec.containers),
    )


def _make_ended(pod: Pod, now: datetime, code: int) -> PodStatus:
    phase = "Failed" if code or not pod.status.container_statuses else "Succeeded"
    return msgspec.structs.replace(
        pod.status,
        phase=phase,
        conditions=_make_conditions(pod, now, ready=False, reason="PodFailed" if phase == "Failed" else "PodCompleted"),
        container_statuses=tuple(
            msgspec.structs.replace(
                status, ready=False, started=False, state=_make_terminated(_find_start_time(status, now), now, code)
            )
            for status in pod.status.container_statuses
        ),
    )


def _make_restarted(pod: Pod, now: datetime, code: int) -> PodStatus:
    """Return the status of a pod whose containers have exited and run again. code: the exit code of the last run."""
    running = ContainerState(running=ContainerStateRunning(started_at=now))
    return msgspec.structs.replace(
        pod.status,
        container_statuses=tuple(
            msgspec.structs.replace(
                status,
                state=running,
                last_state=_make_terminated(_find_start_time(status, now), now, code),
                restart_count=status.restart_count + 1,
            )
            for status in pod.status.container_statuses
        ),
    )


def _make_conditions(pod: Pod, now: datetime, *, ready: bool, reason: str = "") -> tuple[PodCondition, ...]:
    wanted = (
        ("PodScheduled", True, ""),
        ("PodReadyToStartContainers", ready, ""),
        ("Initialized", True, reason if reason == "PodCompleted" else ""),
        ("ContainersReady", ready, reason),
        ("Ready", ready, reason),
    )
    own = {type for type, _, _ in wanted}
    others = tuple(condition for condition in pod.status.conditions if condition.type not in own)
    return (*others, *(make_condition(pod, now, type, holds, why) for type, holds, why in wanted))


def _make_status(container: Container, state: ContainerState, *, started: bool = False) -> ContainerStatus:
    return ContainerStatus(
        name=container.name,
        image=container.image,
        state=state,
        ready=True,
        started=started,
    )


def _make_terminated(began: datetime, now: datetime, code: int) -> ContainerState:
    reason = "Error" if code else "Completed"
    ended = ContainerStateTerminated(exit_code=code, reason=reason, started_at=began, finished_at=now)
    return ContainerState(terminated=ended)


def _find_start_time(status: ContainerStatus, now: datetime) -> datetime:
    running = status.state.running
    return (running.started_at if running else None) or now


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _find_exit_code(pod: Pod, otherwise: int) -> int:
    text = pod.metadata.annotations.get(EXIT_CODE, "")
    return int(text) % 256 if text.isascii() and text.isdigit() else otherwise


def _parse_duration(text: str) -> float:
    """Return the seconds of a Go duration, or of a bare number; 0 for any other text."""
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else durations.parse_seconds(text)
    except (DurationError, ValueError):
        return 0.0


def _holds(pod: Pod, requirement: FieldCondition) -> bool:
    value = _read_field(pod, requirement.key)
    match requirement.operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values


def _read_field(pod: Pod, key: str) -> str | None:
    """Return a field of the pod by its path; None if the field is not set."""
    head, bracket, rest = key.partition("['")
    if bracket:
        entries = {"metadata.annotations": pod.metadata.annotations, "metadata.labels": pod.metadata.labels}.get(
            head, {}
        )
        return entries.get(rest.removesuffix("']"))
    value = _READERS[key](pod) if key in _READERS else None
    return str(value) if value not in (None, "") else None


_READERS = {
    "metadata.deletionTimestamp": lambda pod: pod.metadata.deletion_timestamp,
    "metadata.name": lambda pod: pod.metadata.name,
    "metadata.namespace": lambda pod: pod.metadata.namespace,
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy,
    "status.phase": lambda pod: pod.status.phase,
    "status.podIP": lambda pod: pod.status.pod_ip,
    "status.reason": lambda pod: pod.status.reason,
}
