"""The implementation shared by the blocking and the asynchronous interface, for existing jobs.

All functions run on the loop of `background`.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from muster.actions.errors import UserError
from muster.actions.following.elsewhere import make_reach
from muster.actions.following.excerpt import Excerpt
from muster.actions.following.follow import Follower
from muster.actions.following.printout import Printout
from muster.actions.jobs.cancelling import cancel as cancel_job
from muster.actions.jobs.explaining import explain
from muster.actions.jobs.lookup import get_job
from muster.actions.jobs.scaling import scale as scale_job
from muster.actions.server.session import OWN_NAMESPACE, Session, Target
from muster.api.core import NODE
from muster.api.values.quantity import parse_thousandths
from muster.insight.jobs.state import Ending, JobState, find_job_state
from muster.insight.jobs.state import parse_rank as worker_named
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.listing.lists import Lists
from muster.insight.record import JobRecord
from muster.insight.why.answer import make_document, render_lines
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.tasks import run_until_first
from muster.sdk.calls import Outcome, list_returned_ranks, outcome_of, read_outcomes
from muster.sdk.connections import Connections
from muster.sdk.directories import call_directory
from muster.sdk.options import Options
from muster.sdk.outputlines import Lines

log = logging.getLogger("muster")


@dataclass(frozen=True, slots=True)
class JobReference:
    """A job, and the session with its cluster.

    The UID distinguishes the job from a later job of the same name.

    opened: the session.
    process: the id of the process that opened it.
    """

    opened: Session
    name: str
    namespace: str
    uid: str
    process: int = field(default_factory=os.getpid)

    @property
    def session(self) -> Session:
        """The session with the job's cluster.

        Raises `UserError` in a forked process, whose requests would be mixed with requests of its parent.
        """
        if self.process == os.getpid():
            return self.opened
        if self.opened.own:
            raise UserError(
                f"{self.name} runs in a cluster inside process {self.process}, which a fork of it cannot reach: "
                f"use the job there"
            )
        raise UserError(
            f"{self.name} was opened by process {self.process}, and this process is a fork of it: "
            f"open the job again, with muster.job({self.name!r})"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Why:
    """The output of `muster why` about a job: as text, which `str` returns, and as data."""

    text: str
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a job, and the outcomes of its calls.

    outcomes: the outcome of each rank's call, None for a missing outcome; None instead of the list if the job ran a
    command.
    first: the rank of the first outcome in the list.
    """

    name: str
    ending: Ending
    outcomes: Sequence[Outcome | None] | None
    first: int = 0


async def count_cpus(connections: Connections, options: Options) -> Sequence[int]:
    """Return the CPUs of each schedulable node, in millicores.

    Raises `UserError` if the user may not list nodes, and the errors of `open_session`.
    """
    lists = Lists((await open_session(connections, options)).client)
    nodes = await lists.of(NODE)
    if nodes is None:
        raise UserError(lists.describe_lacking(NODE))
    return [parse_thousandths(node.status.allocatable.get("cpu", "0")) for node in nodes if not node.spec.unschedulable]


async def open_session(connections: Connections, options: Options) -> Session:
    """Return the session with the cluster that the options name. Raises `UserError`."""
    target = Target(options.get("kubeconfig", ""), options.get("namespace", ""))
    session = await connections.session(target)
    if session.own and target.namespace not in ("", OWN_NAMESPACE):
        raise UserError(f"no cluster runs, so there is no namespace {target.namespace}")
    return session


async def find(connections: Connections, name: str, options: Options) -> JobReference:
    """Return a reference to an existing job. Raises `ApiError` if the job does not exist, and `UserError`."""
    session = await open_session(connections, options)
    job = await get_job(session.client, name, session.namespace)
    return JobReference(session, name, session.namespace, job.metadata.uid)


async def record(reference: JobReference) -> JobRecord:
    """Read the current record of a job.

    Raises `ApiError` if it was deleted, `UserError` if another job has its name.
    """
    job = await get_job(reference.session.client, reference.name, reference.namespace)
    if job.metadata.uid != reference.uid:
        raise UserError(f"the job {reference.name} was deleted, and another job has its name")
    return job


async def wait_for_ending(reference: JobReference) -> Ending:
    """Wait for the end of a job; return how it ended. Raises `ApiError`, `TransportError`, `UserError`."""
    return await _make_follower(reference).run(await record(reference))


async def wait_for_end(reference: JobReference) -> Ended:
    """Wait for the end of a job; return how it ended and, if it makes calls, the outcomes of its ranks.

    Raises `ApiError`, `TransportError`, `UserError`, `Error`.
    """
    job = await record(reference)
    end = await _make_follower(reference).run(job)
    directory = call_directory(job)
    if directory is None:
        return Ended(reference.name, end, None)
    ranks = (await record(reference)).wanted if end.code == 0 else job.wanted  # the job may have been resized
    return Ended(reference.name, end, await asyncio.to_thread(read_outcomes, directory, ranks))


async def wait_for_trial(reference: JobReference, rank: int) -> Ended:
    """Wait for the end of one trial; return its outcome, as if it were a job with only this rank.

    Raises `ApiError`, `TransportError`, `UserError`, `Error`.
    """
    await wait_for_any_trial(reference, [rank])
    job = await record(reference)
    directory = call_directory(job)
    assert directory is not None, "the trials are calls"
    outcome = await asyncio.to_thread(outcome_of, directory, rank)
    if outcome is not None:
        return Ended(reference.name, Ending(0), [outcome], rank)
    if rank in job.cancelled_trials:
        return Ended(reference.name, Ending(1, f"trial {rank} was cancelled"), [None], rank)
    if rank in job.failed_trials:
        return Ended(reference.name, Ending(1, f"trial {rank} has failed without a word"), [None], rank)
    return Ended(reference.name, await wait_for_ending(reference), [None], rank)


async def wait_for_any_trial(reference: JobReference, ranks: Collection[int]) -> None:
    """Wait until one of these trials or the whole job has ended.

    Raises `ApiError`, `TransportError`, `UserError`.
    """
    changed = asyncio.Event()
    follower = structs.replace(_make_follower(reference), report=lambda _: changed.set())
    following = asyncio.create_task(follower.run(await record(reference)), name=f"trials-{reference.name}")
    following.add_done_callback(lambda _: changed.set())
    try:
        while not following.done():
            ended_ranks = await trials_done(reference)
            if any(rank in ended_ranks for rank in ranks):
                return
            await changed.wait()
            changed.clear()
        await following
    finally:
        following.cancel()


async def wait_for_any(
    jobs: Collection[JobReference], trials: Collection[tuple[JobReference, Collection[int]]]
) -> None:
    """Wait until one of these jobs or one of these trials has ended.

    Raises `ApiError`, `TransportError`, `UserError`.
    """
    await run_until_first(
        *(wait_for_ending(job) for job in jobs), *(wait_for_any_trial(job, ranks) for job, ranks in trials)
    )


async def trials_done(reference: JobReference) -> Collection[int]:
    """Return the ranks of the trials that have ended and will not be retried.

    The outcome of a trial is written before the job's status counts the trial. A trial whose call raised an error may
    be retried, so its outcome alone does not decide.
    """
    job = await record(reference)
    if job.end is not None:
        return range(job.wanted)
    directory = call_directory(job)
    assert directory is not None, "the trials are calls"
    counted = frozenset(job.succeeded_trials | job.failed_trials | job.cancelled_trials)
    return await asyncio.to_thread(list_returned_ranks, directory, counted) | counted


async def watch(reference: JobReference, tell: Callable[[JobState], None]) -> Ending:
    """Call `tell` with each new state of a job until the job ends; return how it ended.

    Raises `ApiError`, `TransportError`, `UserError`.
    """
    return await structs.replace(_make_follower(reference), report=tell).run(await record(reference))


async def read_state(reference: JobReference) -> str:
    """Return the state of a job as a word. Raises `ApiError` if the job was deleted."""
    job = await record(reference)
    facts = await investigate(reference.session.client, reference.namespace, reference.name, RealClock().now())
    return facts.state.word if facts is not None else find_job_state(job, ()).word


async def read_logs(reference: JobReference, rank: int | None, stream: bytes = b"") -> list[str]:
    """Return the lines that the workers have printed so far.

    rank: the rank of the worker; None for all workers, whose ranks then precede the lines.
    stream: stdout or stderr; b"" for both.

    Raises `ApiError`, `TransportError`, and `UserError` if the job has no such rank.
    """
    printed_lines: list[str] = []

    async def tell(lines: Sequence[str]) -> None:
        printed_lines.extend(lines)

    job = await record(reference)
    splitter = Lines(tell, ranks=rank is None and job.max_ranks > 1, stream=stream)
    client, excerpt = reference.session.client, _select_rank(job, rank)
    printout = Printout(
        client,
        RealClock(),
        reference.namespace,
        reference.name,
        show=splitter.show,
        warn=log.warning,
        excerpt=excerpt,
        reach=make_reach(client),
    )
    await printout.print_once(job)
    await splitter.finish()
    return printed_lines


async def follow(reference: JobReference, rank: int | None, tell: Callable[[Sequence[str]], Awaitable[None]]) -> Ending:
    """Call `tell` with lines as workers print them, and await each call; return how the job ended.

    rank: the rank of the worker whose lines are passed on; None for all workers.

    Raises `UserError` if the job has no such rank, and `ApiError`, `TransportError`.
    """
    job = await record(reference)
    splitter = Lines(tell, ranks=rank is None and job.max_ranks > 1)
    follower = structs.replace(_make_follower(reference), show=splitter.show, excerpt=_select_rank(job, rank))
    ending = await follower.run(job)
    await splitter.finish()
    return ending


def _select_rank(job: JobRecord, rank: int | None) -> Excerpt:
    """Return the selection of one worker's output, or of all output for None.

    Raises `UserError` if the job has no such rank.
    """
    try:
        return Excerpt(frozenset() if rank is None else frozenset({worker_named(job, str(rank))}))
    except ValueError as error:
        raise UserError(str(error)) from None


def _make_follower(reference: JobReference) -> Follower:
    client = reference.session.client
    return Follower(
        client,
        RealClock(),
        Random(),
        reference.namespace,
        reference.name,
        warn=log.warning,
        reach=make_reach(client),
        inside=os.environ.get("MUSTER_JOB", ""),
    )


async def why(reference: JobReference) -> Why:
    """Return why a job does not run, or where it runs. Raises `UserError`, and `ApiError` if the job was deleted."""
    await record(reference)
    answer = await explain(reference.session.client, reference.namespace, reference.name, RealClock().now())
    if answer is None:
        raise UserError(f"the job {reference.name} was removed")
    return Why("\n".join(render_lines(*answer)), make_document(*answer))


async def cancel(reference: JobReference) -> str:
    """Cancel a job; return the outcome as a phrase.

    Raises `ApiError` if the job was deleted, and `UserError` if another job has its name.
    """
    await record(reference)
    return await cancel_job(reference.session.client, reference.name, reference.namespace, uid=reference.uid)


async def scale(reference: JobReference, workers: int) -> None:
    """Change the number of workers of a job.

    Raises `ApiError` if the job was deleted, and `UserError` if the size is refused.
    """
    await record(reference)
    session = structs.replace(reference.session, namespace=reference.namespace)
    await scale_job(session, reference.name, workers, uid=reference.uid)
