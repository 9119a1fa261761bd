"""The rules by which simulated pods live, as data: in such a state, after so long, comes that. Pure.

A pod is in the first stage whose conditions all hold; when its delay is over, its next state is written. Rules are
plain data, in the manner of kwok's Stages (`msgspec.convert` makes them); the built-in ones play a pod like this:

- it runs and is ready at once, or after `muster.dev/start-time`;
- with `muster.dev/run-time` (a Go duration, also under kwok's name) it ends after that, with the exit code of
  `muster.dev/exit-code`; its restart policy decides whether it then ends or, after a back-off, runs once more; without
  the annotation it runs for ever;
- when it is deleted it ends as by SIGTERM and goes, at once or after `muster.dev/stop-time`.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
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
from muster.api.pods import find_condition
from muster.api.values import durations
from muster.api.values.durations import DurationError
from muster.cluster.nodes.pod.rules import BACKOFF_FIRST_SECONDS, BACKOFF_LIMIT_SECONDS, BACKOFF_RESET_SECONDS

# Of a program that does nothing about SIGTERM.
_TERMINATED = 143

KWOK_RUN_TIME = "pod-complete.stage.kwok.x-k8s.io/delay"


class _Data(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of what rules are made of."""


class Requirement(_Data, frozen=True, kw_only=True):
    """A condition on a field of the pod: `metadata.deletionTimestamp`, `metadata.annotations['x']`, `status.phase`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class Delay(_Data, frozen=True, kw_only=True):
    """How long a stage lasts: what the first of the annotations that the pod has says, or so many seconds.

    jitter_seconds: at most so much more, by chance.
    """

    seconds: float = 0.0
    jitter_seconds: float = 0.0
    annotations: tuple[str, ...] = ()


class Next(_Data, frozen=True, kw_only=True):
    """What follows: the pod runs, ends, or goes.

    exit_code: of an end, where no annotation says another.
    """

    to: Literal["run", "end", "delete"]
    exit_code: int = 0


class Stage(_Data, frozen=True, kw_only=True):
    """One rule."""

    name: str
    match: tuple[Requirement, ...]
    next: Next
    delay: Delay = Delay()


DEFAULT_STAGES: tuple[Stage, ...] = (
    Stage(
        name="delete",
        match=(Requirement(key="metadata.deletionTimestamp", operator="Exists"),),
        delay=Delay(annotations=(STOP_TIME,)),
        next=Next(to="delete", exit_code=_TERMINATED),
    ),
    Stage(
        name="start",
        match=(Requirement(key="status.phase", operator="NotIn", values=("Running", "Succeeded", "Failed")),),
        delay=Delay(annotations=(START_TIME,)),
        next=Next(to="run"),
    ),
    Stage(
        name="complete",
        match=(
            Requirement(key="status.phase", operator="In", values=("Running",)),
            Requirement(key=f"metadata.annotations['{RUN_TIME}']", operator="Exists"),
        ),
        delay=Delay(annotations=(RUN_TIME,)),
        next=Next(to="end"),
    ),
    Stage(
        name="complete-as-kwok",
        match=(
            Requirement(key="status.phase", operator="In", values=("Running",)),
            Requirement(key=f"metadata.annotations['{KWOK_RUN_TIME}']", operator="Exists"),
        ),
        delay=Delay(annotations=(KWOK_RUN_TIME,)),
        next=Next(to="end"),
    ),
)


@dataclass(frozen=True, slots=True)
class Step:
    """What is written of a pod: a status, and whether the object then goes."""

    status: PodStatus
    delete: bool = False


def stage_of(pod: Pod, stages: Sequence[Stage]) -> Stage | None:
    """The stage that the pod is in; None if nothing more will happen to it."""
    return next((stage for stage in stages if all(_holds(pod, condition) for condition in stage.match)), None)


def delay_seconds(pod: Pod, stage: Stage, fraction: float) -> float:
    """How long the pod stays in the stage. `fraction`, from 0 to 1, is chance. An unreadable annotation counts as 0."""
    seconds = stage.delay.seconds
    for annotation in stage.delay.annotations:
        text = pod.metadata.annotations.get(annotation)
        if text is not None:
            seconds = _duration(text)
            break
    seconds = max(seconds, 0.0) + stage.delay.jitter_seconds * fraction
    return seconds + (_back_off(pod, seconds) if stage.next.to == "end" else 0.0)


def _back_off(pod: Pod, ran_seconds: float) -> float:
    """How long containers that have been restarted before would have waited for it (see `pod/rules.py`)."""
    restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
    if restarts < 2 or ran_seconds >= BACKOFF_RESET_SECONDS:
        return 0.0
    return min(BACKOFF_FIRST_SECONDS * 2.0 ** min(restarts - 2, 10), BACKOFF_LIMIT_SECONDS)


def advance(pod: Pod, stage: Stage, now: datetime, node_address: str) -> Step:
    """What comes after the stage."""
    moment = now.replace(microsecond=0)
    if stage.next.to == "run":
        return Step(_running(pod, moment, node_address))
    if stage.next.to == "delete":
        return Step(pod.status if _is_over(pod) else _ended(pod, moment, stage.next.exit_code), delete=True)
    code = _exit_code(pod, stage.next.exit_code)
    policy = pod.spec.restart_policy or "Always"
    if policy == "Always" or (policy == "OnFailure" and code):
        return Step(_restarted(pod, moment, code))
    return Step(_ended(pod, moment, code))


def address_of(uid: str) -> str:
    """The address of a simulated pod: it leads nowhere, and is the same whenever it is asked for."""
    number = zlib.crc32(uid.encode())
    return f"10.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.{number & 0xFF}"


def _running(pod: Pod, now: datetime, node_address: str) -> PodStatus:
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
        conditions=_conditions(pod, now, ready=True),
        init_container_statuses=tuple(
            _status(c, _terminated(now, now, 0), ready=True) for c in pod.spec.init_containers
        ),
        container_statuses=tuple(_status(c, running, ready=True, started=True) for c in pod.spec.containers),
    )


def _ended(pod: Pod, now: datetime, code: int) -> PodStatus:
    phase = "Failed" if code or not pod.status.container_statuses else "Succeeded"
    return msgspec.structs.replace(
        pod.status,
        phase=phase,
        conditions=_conditions(pod, now, ready=False, reason="PodFailed" if phase == "Failed" else "PodCompleted"),
        container_statuses=tuple(
            msgspec.structs.replace(
                status, ready=False, started=False, state=_terminated(_since(status, now), now, code)
            )
            for status in pod.status.container_statuses
        ),
    )


def _restarted(pod: Pod, now: datetime, code: int) -> PodStatus:
    """The containers have ended and run again."""
    running = ContainerState(running=ContainerStateRunning(started_at=now))
    return msgspec.structs.replace(
        pod.status,
        container_statuses=tuple(
            msgspec.structs.replace(
                status,
                state=running,
                last_state=_terminated(_since(status, now), now, code),
                restart_count=status.restart_count + 1,
            )
            for status in pod.status.container_statuses
        ),
    )


def _conditions(pod: Pod, now: datetime, *, ready: bool, reason: str = "") -> tuple[PodCondition, ...]:
    wanted = (
        ("PodScheduled", True, ""),
        ("PodReadyToStartContainers", ready, ""),
        ("Initialized", True, reason if reason == "PodCompleted" else ""),
        ("ContainersReady", ready, reason),
        ("Ready", ready, reason),
    )
    own = {type for type, _, _ in wanted}
    others = tuple(condition for condition in pod.status.conditions if condition.type not in own)
    return (*others, *(_condition(pod, now, type, holds=holds, reason=why) for type, holds, why in wanted))


def _condition(pod: Pod, now: datetime, type: str, *, holds: bool, reason: str) -> PodCondition:
    status = "True" if holds else "False"
    before = find_condition(pod, type)
    since = before.last_transition_time if before and before.status == status else None
    return PodCondition(
        type=type,
        status=status,
        reason=reason,
        observed_generation=pod.metadata.generation,
        last_transition_time=since or now,
    )


def _status(container: Container, state: ContainerState, *, ready: bool, started: bool = False) -> ContainerStatus:
    return ContainerStatus(
        name=container.name,
        image=container.image,
        state=state,
        ready=ready,
        started=started,
    )


def _terminated(began: datetime, now: datetime, code: int) -> ContainerState:
    reason = "Error" if code else "Completed"
    ended = ContainerStateTerminated(exit_code=code, reason=reason, started_at=began, finished_at=now)
    return ContainerState(terminated=ended)


def _since(status: ContainerStatus, now: datetime) -> datetime:
    running = status.state.running
    return (running.started_at if running else None) or now


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _exit_code(pod: Pod, otherwise: int) -> int:
    text = pod.metadata.annotations.get(EXIT_CODE, "")
    return int(text) % 256 if text.isascii() and text.isdigit() else otherwise


def _duration(text: str) -> float:
    """A Go duration, or a bare number of seconds."""
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else durations.seconds(text)
    except (DurationError, ValueError):
        return 0.0


def _holds(pod: Pod, requirement: Requirement) -> bool:
    value = _field(pod, requirement.key)
    match requirement.operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values


def _field(pod: Pod, key: str) -> str | None:
    """A field by its path; None if it is not set."""
    head, bracket, rest = key.partition("['")
    if bracket:
        entries = {"metadata.annotations": pod.metadata.annotations, "metadata.labels": pod.metadata.labels}.get(
            head, {}
        )
        return entries.get(rest.removesuffix("']"))
    value = _READERS[key](pod) if key in _READERS else None
    return str(value) if value not in (None, "") else None


_MAPS = ("metadata.annotations['", "metadata.labels['")
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
