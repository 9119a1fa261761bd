"""Submit jobs, for the blocking and the asynchronous interface. A cancelled submission leaves no job.

All coroutines run on the loop of `background`.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from muster.actions.choices import find_queue_label, priority_classes
from muster.actions.delivering import explain_unsent
from muster.actions.errors import UserError
from muster.actions.server.session import Session
from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import foresee, may_have_created, submit
from muster.actions.submission.sweep import Sweep
from muster.api.ours.trials import Array
from muster.api.status import ApiError
from muster.insight.jobs.state import OPEN
from muster.insight.reader.engine import is_embedded
from muster.runtime.tasks import finish_thread, wait_through_cancellation
from muster.runtime.transport import TransportError
from muster.sdk import worker
from muster.sdk.background import Background
from muster.sdk.calls import name_function, pack_call
from muster.sdk.connections import Connections
from muster.sdk.core import Ended, JobReference, cancel, open_session, record, wait_for_end
from muster.sdk.directories import call_directory, new_directory, remove_directory
from muster.sdk.errors import Error
from muster.sdk.options import Options, gang_of

log = logging.getLogger("muster")

What = Callable[..., Any] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a job: one call or command that all workers run, or independent trials.

    name: the words from which the name of the job is derived.
    call: the pickled call.
    trials: the pickled calls of the trials, one per worker, instead of `call`.
    at_once: the maximum number of concurrent trials; None for no limit.
    """

    name: Sequence[str]
    call: bytes = b""
    command: Sequence[str] = ()
    trials: Sequence[bytes] = ()
    at_once: int | None = None

    def make_sweep(self, retries: int) -> Sweep | None:
        """Return the sweep of the trials; None if all workers run the same work.

        retries: how often a trial is retried after a failure.
        """
        indexes = Array.of(range(len(self.trials)))
        return Sweep(indexes, at_once=self.at_once, retries=retries) if self.trials else None

    def files(self) -> dict[str, bytes]:
        """Return the files to write into the workers' directory, by name: one pickled call, or one per trial."""
        trials = {worker.CALL_OF.format(rank=rank): call for rank, call in enumerate(self.trials)}
        return trials or {worker.CALL: self.call}


def work_of(what: What, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Work:
    """Return the work that runs a function or a command.

    what: a function, a list of words, or a shell command line.

    Raises `Error` if a function cannot be pickled, or if a command has arguments of a function, and `TypeError` if
    `args` is not a sequence of arguments.
    """
    if callable(what):
        if isinstance(args, str | bytes) or not isinstance(args, Iterable):
            raise TypeError(f"args is the list of the arguments; for the one argument {args!r} say args=({args!r},)")
        return Work([name_function(what)], pack_call(what, args, kwargs or {}))
    if args or kwargs:
        raise Error("args= and kwargs= belong to a function; put all words of a command into its list")
    if not isinstance(what, str | Sequence):
        raise TypeError(f"{what!r} is neither a function nor the words of a command")
    words = what.split() if isinstance(what, str) else [str(word) for word in what]
    if not words or not words[0]:
        raise Error("the command is empty: its first word names the program")
    return Work(words, command=["sh", "-c", what] if isinstance(what, str) else words)


class Submission:
    """A submission of a job. Its caller either takes over the job or abandons it."""

    def __init__(self, connections: Connections, work: Work, options: Options) -> None:
        self._connections = connections
        self._work = work
        self._options = options
        self._job: JobReference | None = None

    async def run(self) -> JobReference:
        """Submit the work; return the job. Raises `UserError`, and the errors of the server."""
        self._job = await _run(self._connections, self._work, self._options)
        return self._job

    async def abandon(self) -> None:
        """Remove the job if `run` has finished, but its caller was cancelled before it received the job.

        A `run` that has not finished removes its job itself. The exit of the program waits for this.
        """
        if self._job is not None:
            removing = _end_unawaited(self._job, _remove_with_calls(self._job))
            await wait_through_cancellation(asyncio.create_task(removing))


def submit_work(thread: Background, work: Work, options: Options) -> JobReference:
    """Submit the work for a blocking caller; return the job. If the caller is interrupted, the job is removed.

    Raises `Error`.
    """
    submission = Submission(thread.connections, work, options)
    try:
        return thread.call(submission.run())
    except BaseException:
        thread.start(submission.abandon())
        raise


async def _run(connections: Connections, work: Work, options: Options) -> JobReference:
    if work.command:
        return await _submit(await open_session(connections, options), work.command, work.name, options)
    sweep = work.make_sweep(options.get("retries") or 0)
    directory = await make_call_directory(connections, options)
    try:
        await write_calls(directory, work.files())
        return await submit_workers(connections, directory, worker.ONCE, work.name, options, sweep)
    except BaseException:
        remove_directory(directory)
        raise


async def write_calls(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the calls of a job into a directory, in a thread, because a large argument takes seconds.

    A cancellation waits for the thread, so that nothing is written afterwards. Raises `UserError` if a file cannot be
    written.
    """
    await finish_thread(_write_files, directory, files)


def _write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    for name, call in files.items():
        try:
            (directory / name).write_bytes(call)
        except OSError as error:
            raise UserError(
                f"cannot write the call, {len(call)} bytes, to {directory / name}: {error.strerror}"
            ) from error


async def make_call_directory(connections: Connections, options: Options) -> Path:
    """Create and return a directory for the calls of a job. Raises `UserError`, as `new_directory` does."""
    return await new_directory(connections, await open_session(connections, options), options.get("queue", ""))


async def submit_workers(
    connections: Connections,
    directory: Path,
    how: str,
    name: Sequence[str],
    options: Options,
    sweep: Sweep | None = None,
) -> JobReference:
    """Submit workers that make the calls in a directory; return the job.

    how: `worker.ONCE` for workers that make one call, or `worker.STAY` for workers that make the calls that arrive over
    a socket.
    name: the words from which the name of the job is derived.
    sweep: the trials, if each worker makes a different call; None otherwise.
    """
    # -P keeps the directory of the file out of the module search path.
    command = [sys.executable, "-P", worker.__file__, how]
    env = {**options.get("env", {}), worker.DIRECTORY: str(directory)}
    return await _submit(await open_session(connections, options), command, name, {**options, "env": env}, sweep)


async def _submit(
    session: Session, command: Sequence[str], name: Sequence[str], options: Options, sweep: Sweep | None = None
) -> JobReference:
    client = session.client
    local = await is_embedded(client)
    queue = await find_queue_label(client, session.namespace, options.get("queue", ""), embedded=local)
    options = {**options, "queue": queue}
    classes = await priority_classes(client, options.get("priority", ""))
    gang = gang_of(options, command, name, session.namespace, classes, on_this_machine=local)
    notices = local and not session.own
    if gang.notify and (complaint := explain_unsent(gang.notify, os.environ.get("PATH", os.defpath), embedded=notices)):
        raise UserError(f"notify=: {complaint}")
    if sweep is not None:
        gang = replace(gang, sweep=sweep)
    submitting = asyncio.create_task(_create(session, gang, named=bool(options.get("name"))), name="submit")
    try:
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        await wait_through_cancellation(submitting)  # only the server's response tells whether the job exists
        if not submitting.cancelled():
            await wait_through_cancellation(asyncio.create_task(_undo(submitting)))
        raise


async def _undo(submitting: "asyncio.Task[JobReference]") -> None:
    """Remove the job of a finished submission for which no caller waits any more.

    A failure is logged, with what may be left over.
    """
    error = submitting.exception()
    if error is None:
        await _end_unawaited(submitting.result(), remove(submitting.result()))
    elif may_have_created(error):
        log.warning("the submission was cancelled: %s", error)


async def _create(session: Session, gang: Gang, *, named: bool) -> JobReference:
    """Create the job, and log a warning if it waits for nodes or can never start.

    named: whether the caller chose the name; otherwise another name is used if the first is taken.

    If the job can never start in a cluster inside this process, it is deleted, and `UserError` is raised.
    """
    job = await submit(session.client, gang, log.warning, named=named)
    reference = JobReference(session, gang.name, gang.namespace, job.metadata.uid)
    asks = gang.cpus or gang.memory or gang.gpus or (session.own and gang.most_workers > 1)
    verdict = await foresee(session, job, log.warning) if asks else OPEN
    if verdict.sentence:
        forecast = f"{gang.name} {verdict.sentence}"
        if verdict.awaits or not session.own:  # the cluster may get more capacity
            log.warning("%s", forecast)
        else:
            await remove(reference)
            raise UserError(forecast)  # a cluster inside this process never gets more capacity
    return reference


async def remove(reference: JobReference) -> None:
    """Delete a job that this process has just submitted. Raises `ApiError`, `TransportError`, `UserError`."""
    job = await record(reference)
    where = reference.name, reference.namespace
    await reference.session.client.delete(job.kind, *where, propagation="Background", uid=reference.uid)


async def _remove_with_calls(reference: JobReference) -> None:
    """Delete a job that was just submitted, and the directory of its calls. Raises the errors of `remove`."""
    directory = call_directory(await record(reference))
    await remove(reference)
    if directory is not None:
        remove_directory(directory)


async def submit_and_wait(connections: Connections, work: Work, options: Options) -> Ended:
    """Submit the work, and wait until it has ended; return how it ended.

    If the wait is cancelled, the job is cancelled, too. Raises `ApiError`, `TransportError`, `UserError`.
    """
    reference = await _run(connections, work, options)
    try:
        return await wait_for_end(reference)
    except asyncio.CancelledError:
        await _end_unawaited(reference, cancel(reference))
        raise


async def _end_unawaited(reference: JobReference, ending: Awaitable[object]) -> None:
    """Await `ending`, which ends a job for which no caller waits any more. A failure is logged, and not raised."""
    try:
        await ending
    except (ApiError, TransportError, UserError) as error:
        _report_left(reference.name, reference.namespace, error)


def _report_left(name: str, namespace: str, error: Exception) -> None:
    removal = f"muster cancel --delete {name} -n {namespace}"
    log.warning("the job %s was cancelled, and may still be there: %s. Remove it with: %s", name, error, removal)
