"""Restore the state of a pod's containers from the shims' files, and from the API if the files are missing.

A new server has no other information about the pods of an earlier server. In doubt, a container is never restarted
within a pod: an attempt that a shim claimed has run, and an attempt with an unknown exit has failed.

A pod is interrupted if the exit of one of its attempts is unknown, as after a power cut, or if its termination was
requested. The pod's status in the API does not decide this: the last status may never have been written, or a restored
backup may be older. An interrupted pod terminates, and its Job creates another pod.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from muster.api.core import Container, ContainerStatus, Pod
from muster.api.ours.oom import OOM_KILLED, describe_excess
from muster.api.ours.usage import Usage
from muster.api.pods import is_sidecar, job_reference, memory_limit
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching, logs
from muster.cluster.nodes.disk import plainfiles
from muster.cluster.nodes.disk.plainfiles import OddFileError
from muster.cluster.nodes.disk.storage import PodRecord, PodStorage
from muster.cluster.nodes.pod.facts import Attempt, ContainerFacts, Exit, Now
from muster.cluster.nodes.shims import Shim, ShimRecord

KILLED_CODE = 137
UNKNOWN_REASON = "ContainerStatusUnknown"
UNKNOWN_MESSAGE = "The container could not be located: its shim was killed, or the machine went down"
# Upstream's limits of the termination message, and of the end of the log that replaces it.
_MESSAGE_BYTES, _LOG_LINES, _LOG_BYTES = 4096, 80, 2048


class Restored(Struct, frozen=True):
    """A restored container.

    shim: the shim of its attempt if the attempt runs; otherwise None.
    ready: its last readiness.
    """

    facts: ContainerFacts
    shim: Shim | None = None
    ready: bool = False  # as in the API


def restore_container(pod: Pod, container: Container, storage: PodStorage, now: Now) -> Restored:
    """Return the state of a container after a restart, from the files on disk, or else from its status in the API."""
    status = _find_status(pod, container.name)
    numbers = [
        number
        for number in storage.attempts(container.name)
        if shims.read_record(storage.attempt(container.name, number)) is not None
    ]
    if not numbers or (status is not None and status.restart_count > numbers[-1]):
        return Restored(
            ContainerFacts(_make_attempt_from_status(status, now), restarts=status.restart_count if status else 0)
        )
    number = numbers[-1]
    directory = storage.attempt(container.name, number)
    shim = shims.find(directory)
    record = shims.read_record(directory) or ShimRecord()
    attempt = Attempt(
        number,
        launching.container_id(pod, container.name, number),
        started_at(record),
        exit=None if shim else determine_exit(pod, container, directory, number, record, now),
    )
    before = storage.attempt(container.name, number - 1)
    earlier = shims.read_record(before) if number - 1 in numbers else None
    previous = determine_exit(pod, container, before, number - 1, earlier, now) if earlier else None
    ready = status.ready if status else False
    return Restored(ContainerFacts(attempt, previous, restarts=number), shim, ready)


def was_interrupted(pod: Pod, containers: Mapping[str, ContainerFacts], record: PodRecord | None) -> bool:
    """Return whether a restored pod must terminate, because it was interrupted.

    A pod without a Job continues instead if its containers may be restarted. The exit of a sidecar does not matter.

    containers: the state of the pod's containers, by name.
    record: the pod's record on disk; None without one.
    """
    if pod.spec.restart_policy != "Never" and job_reference(pod) is None:
        return False
    if record is not None and record.ended:
        return True
    steps = (container for container in pod.spec.init_containers if not is_sidecar(container))
    attempts = (containers[one.name].attempt for one in (*steps, *pod.spec.containers) if one.name in containers)
    exits = (attempt.exit for attempt in attempts if attempt is not None)
    return any(exit is not None and exit.reason == UNKNOWN_REASON for exit in exits)


def is_forgotten(record: PodRecord | None) -> bool:
    """Return whether the server may not know that a pod was interrupted.

    That is so if the record says that the node terminated the pod, or if there is no record. A restored backup leads to
    such a state, and so does a stop whose last writes never reached the server. The disk cannot distinguish the two.
    """
    return record is None or record.ended


def determine_exit(
    pod: Pod, container: Container, directory: Path, number: int, record: ShimRecord | None, now: Now
) -> Exit:
    """Return how an attempt exited, after its shim has exited. If the shim recorded no exit, the code is 137.

    directory: the directory of the attempt.
    number: its number.
    record: the shim's record; None without one.
    """
    name = launching.container_id(pod, container.name, number)
    if record is None or not record.finished:
        began = started_at(record) if record else None
        ran_seconds = max((now.wall - began).total_seconds(), 0.0) if began else 0.0
        return Exit(KILLED_CODE, UNKNOWN_REASON, UNKNOWN_MESSAGE, began, now.wall, now.monotonic, ran_seconds, name)
    finished = _to_datetime(record.finished)
    return Exit(
        code=record.code,
        reason=record.reason or ("Error" if record.code else "Completed"),
        message=_find_message(container, directory, record),
        started_at=started_at(record),
        finished_at=finished,
        finished=now.monotonic - max((now.wall - finished).total_seconds(), 0.0),
        ran_seconds=(record.finished - record.started) / 1e9 if record.started else 0.0,
        container_id=name,
    )


def sum_recorded_usage(pod: Pod, storage: PodStorage) -> Usage:
    """Return the total usage of a pod, as far as the shims of its containers recorded it."""
    total = Usage()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for number in storage.attempts(container.name):
            if record := shims.read_record(storage.attempt(container.name, number)):
                total += Usage(record.cpu_microseconds / 1e6, record.memory_bytes)
    return total


def started_at(record: ShimRecord) -> datetime | None:
    """Return when an attempt started to run; the time of its claim if its start is unknown, None if it never ran."""
    if record.finished and not record.started:
        return None
    return _to_datetime(record.started or record.claimed)


def _find_message(container: Container, directory: Path, record: ShimRecord) -> str:
    """Return the termination message of an exited container; "" if none.

    The message is the first of: an OOM kill, the container's file, the shim's message, the log's end
    (`FallbackToLogsOnError`).
    """
    if record.reason == OOM_KILLED and (limit := memory_limit(container)):
        return describe_excess(record.memory_bytes, limit)
    if launching.message_path(container):
        with suppress(FileNotFoundError, OddFileError):
            if words := plainfiles.read(directory / launching.MESSAGE_FILE, _MESSAGE_BYTES):
                return words.decode(errors="replace")
    if record.message:
        return record.message
    if record.code and container.termination_message_policy == "FallbackToLogsOnError":
        return logs.read_tail(directory, _LOG_LINES, _LOG_BYTES)
    return ""


def _find_status(pod: Pod, name: str) -> ContainerStatus | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.name == name), None)


def _make_attempt_from_status(status: ContainerStatus | None, now: Now) -> Attempt | None:
    """Return the last attempt of a container from its status in the API, as exited; None if it never ran."""
    if status is None:
        return None
    ended = status.state.terminated or (status.last_state.terminated if status.state.waiting else None)
    if ended is not None:
        finished = ended.finished_at or now.wall
        began = ended.started_at
        exit = Exit(
            ended.exit_code,
            ended.reason,
            ended.message,
            began,
            finished,
            now.monotonic - max((now.wall - finished).total_seconds(), 0.0),
            max((finished - began).total_seconds(), 0.0) if began else 0.0,
            ended.container_id,
        )
    elif status.state.running is not None or status.restart_count:
        began = status.state.running.started_at if status.state.running else None
        exit = Exit(
            KILLED_CODE, UNKNOWN_REASON, UNKNOWN_MESSAGE, began, now.wall, now.monotonic, 0.0, status.container_id
        )
    else:
        return None
    return Attempt(status.restart_count, exit.container_id, exit.started_at, exit)


def _to_datetime(nanoseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
