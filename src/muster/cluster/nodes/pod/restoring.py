"""What is known of a pod's containers from what shims have left on disk, and from what the API says where that is gone.

This is all that a new server knows of the pods of the one before it. Nothing is ever started again because of a doubt:
an attempt that was claimed has run, and if it is not known how it ended, it failed.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from muster.api.core import Container, ContainerStatus, Pod
from muster.api.ours.usage import Usage
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching, logs
from muster.cluster.nodes.disk import plainfiles
from muster.cluster.nodes.disk.plainfiles import OddFileError
from muster.cluster.nodes.disk.storage import PodStorage
from muster.cluster.nodes.pod.facts import Attempt, ContainerFacts, Exit, Now
from muster.cluster.nodes.shims import Record, Shim

KILLED_CODE = 137
UNKNOWN_REASON = "ContainerStatusUnknown"
UNKNOWN_MESSAGE = "The container could not be located: its shim was killed, or the machine went down"
# Upstream's limits of the termination message, and of the part of the log that stands in for it.
_MESSAGE_BYTES, _LOG_LINES, _LOG_BYTES = 4096, 80, 2048


@dataclass(frozen=True, slots=True)
class Restored:
    """A container as it was found; `shim` lives if the attempt does."""

    facts: ContainerFacts
    shim: Shim | None = None
    ready: bool = False  # what the API says of it


def container(pod: Pod, container: Container, storage: PodStorage, now: Now) -> Restored:
    """What is known of a container."""
    status = _status(pod, container.name)
    numbers = [
        number
        for number in storage.attempts(container.name)
        if shims.read_record(storage.attempt(container.name, number)) is not None
    ]
    if not numbers or (status is not None and status.restart_count > numbers[-1]):
        return Restored(ContainerFacts(_from_status(status, now), restarts=status.restart_count if status else 0))
    number = numbers[-1]
    directory = storage.attempt(container.name, number)
    shim = shims.find(directory)
    record = shims.read_record(directory) or Record()
    attempt = Attempt(
        number,
        launching.container_id(pod, container.name, number),
        started_at(record),
        exit=None if shim else exit_of(pod, container, directory, number, record, now),
    )
    before = storage.attempt(container.name, number - 1)
    earlier = shims.read_record(before) if number - 1 in numbers else None
    previous = exit_of(pod, container, before, number - 1, earlier, now) if earlier else None
    ready = status.ready if status else False
    return Restored(ContainerFacts(attempt, previous, restarts=number), shim, ready)


def exit_of(pod: Pod, container: Container, directory: Path, number: int, record: Record | None, now: Now) -> Exit:
    """How an attempt ended whose shim is gone."""
    name = launching.container_id(pod, container.name, number)
    if record is None or not record.finished:
        began = started_at(record) if record else None
        ran = max((now.wall - began).total_seconds(), 0.0) if began else 0.0
        return Exit(KILLED_CODE, UNKNOWN_REASON, UNKNOWN_MESSAGE, began, now.wall, now.monotonic, ran, name)
    finished = _time(record.finished)
    return Exit(
        code=record.code,
        reason=record.reason or ("Error" if record.code else "Completed"),
        message=_last_words(container, directory, record),
        started_at=started_at(record),
        finished_at=finished,
        finished=now.monotonic - max((now.wall - finished).total_seconds(), 0.0),
        ran_seconds=(record.finished - record.started) / 1e9 if record.started else 0.0,
        container_id=name,
    )


def used(pod: Pod, storage: PodStorage) -> Usage:
    """What all attempts of all containers have used, as far as their shims could say."""
    total = Usage()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for number in storage.attempts(container.name):
            if record := shims.read_record(storage.attempt(container.name, number)):
                total += Usage(record.cpu_microseconds / 1e6, record.memory_bytes)
    return total


def started_at(record: Record) -> datetime | None:
    """When an attempt began to run; when it was claimed, while it is not known to run yet."""
    if record.finished and not record.started:
        return None
    return _time(record.started or record.claimed)


def _last_words(container: Container, directory: Path, record: Record) -> str:
    """The termination message: the container's own, the shim's, or the end of the log."""
    if launching.message_path(container):
        with suppress(FileNotFoundError, OddFileError):
            if words := plainfiles.read(directory / launching.MESSAGE_FILE, _MESSAGE_BYTES):
                return words.decode(errors="replace")
    if record.message:
        return record.message
    if record.code and container.termination_message_policy == "FallbackToLogsOnError":
        return logs.tail(directory, _LOG_LINES, _LOG_BYTES)
    return ""


def _status(pod: Pod, name: str) -> ContainerStatus | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.name == name), None)


def _from_status(status: ContainerStatus | None, now: Now) -> Attempt | None:
    """An attempt that the API knows of and the disk does not."""
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


def _time(nanoseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
