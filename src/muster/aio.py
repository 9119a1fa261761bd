"""The Python interface for programs with a loop of their own: what waits in `muster` is awaited here.

    job = await muster.aio.run(train, workers=4)
    async for state in muster.aio.watch(job): ...
    value = await muster.aio.result(job)

The work is done in muster's own thread, so any loop will do, and a busy one holds up no job.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from muster.insight.jobstate import JobState
from muster.sdk import core, results
from muster.sdk.background import background
from muster.sdk.core import What, Why
from muster.sdk.feed import Feed
from muster.sdk.jobs import Job
from muster.sdk.options import Options, checked

T = TypeVar("T")

__all__ = ["cancel", "done", "follow", "job", "logs", "result", "run", "scale", "state", "wait", "watch", "why"]


async def run(
    what: What, /, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[Options]
) -> Job:
    """As `muster.run`. Cancelled meanwhile, it leaves no job behind."""
    asked, work, there = checked(options), core.work_of(what, args, kwargs), background()
    submitting = there.start(core.run(there.connections, work, asked))
    try:
        return Job(await asyncio.wrap_future(submitting))
    except asyncio.CancelledError:
        if not submitting.cancel() and submitting.exception() is None:  # it had just been submitted
            there.start(core.remove(submitting.result()))
        raise


async def job(name: str, *, namespace: str = "", kubeconfig: str = "") -> Job:
    """As `muster.job`."""
    options = Options(namespace=namespace, kubeconfig=kubeconfig)
    return Job(await _there(core.find(background().connections, name, options)))


async def wait(job: Job) -> int:
    """Wait until it has ended; its exit code. What limits the time is `asyncio.timeout`."""
    return (await _there(core.ending(job.reference))).code


async def result(job: Job) -> Any:
    """As `Job.result`."""
    return results.result(await _there(core.ended(job.reference)))


async def state(job: Job) -> str:
    """As `Job.state`."""
    return await _there(core.state(job.reference))


async def done(job: Job) -> bool:
    """Whether it has ended."""
    return (await _there(core.record(job.reference))).end is not None


async def logs(job: Job, rank: int | None = None) -> str:
    """As `Job.logs`."""
    return "".join(f"{line}\n" for line in await _there(core.logs(job.reference, rank)))


async def why(job: Job) -> Why:
    """As `Job.why`."""
    return await _there(core.why(job.reference))


async def cancel(job: Job) -> None:
    """End it, gracefully."""
    await _there(core.cancel(job.reference))


async def scale(job: Job, workers: int) -> None:
    """Give it so many workers."""
    await _there(core.scale(job.reference, workers))


async def watch(job: Job) -> AsyncIterator[JobState]:
    """Each state that it comes into, to its end: `word` says it, `ready` of `wanted` workers are, `reason` says why."""
    feed = Feed[JobState]()
    async for one in _taken(feed, core.watch(job.reference, feed.mention)):
        yield one


async def follow(job: Job, rank: int | None = None) -> AsyncIterator[str]:
    """Its lines as they are printed, to its end."""
    feed = Feed[str]()
    async for line in _taken(feed, core.follow(job.reference, rank, feed.tell)):
        yield line


async def _there(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(background().start(work))


async def _taken(feed: Feed[T], work: Coroutine[Any, Any, Any]) -> AsyncIterator[T]:
    """What the work tells in muster's thread, until it is done."""
    working = background().start(feed.filled_by(work))
    try:
        while (several := await _there(feed.take())) is not None:
            for one in several:
                yield one
        await asyncio.wrap_future(working)
    finally:
        working.cancel()
