"""The SDK for programs with an event loop: coroutines in place of the blocking functions of `muster`.

    job = await muster.aio.run(train, workers=4)
    async for state in muster.aio.watch(job):
        ...
    value = await muster.aio.result(job)

Muster runs in a separate thread, so that any event loop works, and a busy loop delays no job.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from muster.insight.jobs.state import JobState
from muster.sdk import core, results
from muster.sdk.background import get_background
from muster.sdk.core import Why
from muster.sdk.feed import Feed
from muster.sdk.jobs import Job
from muster.sdk.options import Options, normalize_options
from muster.sdk.submission import Submission, What, work_of

T = TypeVar("T")

__all__ = ["cancel", "done", "follow", "job", "logs", "result", "run", "scale", "state", "wait", "watch", "why"]


async def run(
    what: What, /, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[Options]
) -> Job:
    """Submit a job, as `muster.run` does. If this call is cancelled, the job is removed."""
    checked_options, work, thread = normalize_options(options), work_of(what, args, kwargs), get_background()
    submission = Submission(thread.connections, work, checked_options)
    try:
        return Job(await asyncio.wrap_future(thread.start(submission.run())))
    except asyncio.CancelledError:
        thread.start(submission.abandon())
        raise


async def job(name: str, *, namespace: str = "", kubeconfig: str = "") -> Job:
    """Return an existing job, as `muster.job` does."""
    options = Options(namespace=namespace, kubeconfig=kubeconfig)
    return Job(await _run_there(core.find(get_background().connections, name, options)))


async def wait(job: Job) -> int:
    """Wait until the job has ended; return its exit code. Use `asyncio.timeout` to limit the wait."""
    return (await _run_there(core.wait_for_ending(job.reference))).code


async def result(job: Job) -> Any:
    """Wait until the job has ended; return its result, as `Job.result` does."""
    return results.collect_result(await _run_there(core.wait_for_end(job.reference)))


async def state(job: Job) -> str:
    """Return the state of the job as a word, as `Job.state` does."""
    return await _run_there(core.read_state(job.reference))


async def done(job: Job) -> bool:
    """Return whether the job has ended."""
    return (await _run_there(core.record(job.reference))).end is not None


async def logs(job: Job, rank: int | None = None) -> str:
    """Return the output of the job so far, as `Job.logs` does."""
    return "".join(f"{line}\n" for line in await _run_there(core.read_logs(job.reference, rank)))


async def why(job: Job) -> Why:
    """Return why the job does not run, as `Job.why` does."""
    return await _run_there(core.why(job.reference))


async def cancel(job: Job) -> None:
    """Cancel the job, as `Job.cancel` does."""
    await _run_there(core.cancel(job.reference))


async def scale(job: Job, workers: int) -> None:
    """Change the number of workers of a job, as `Job.scale` does."""
    await _run_there(core.scale(job.reference, workers))


async def watch(job: Job) -> AsyncIterator[JobState]:
    """Yield each new state of the job until the job ends.

    In a state, `word` is its name, `ready` of `wanted` workers are ready, and `reason` explains it.
    """
    feed = Feed[JobState]()
    async for one in _iterate_feed(feed, core.watch(job.reference, feed.mention)):
        yield one


async def follow(job: Job, rank: int | None = None) -> AsyncIterator[str]:
    """Yield the lines of the job as they are printed, until the job ends."""
    feed = Feed[str]()
    async for line in _iterate_feed(feed, core.follow(job.reference, rank, feed.tell)):
        yield line


async def _run_there(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(get_background().start(work))


async def _iterate_feed(feed: Feed[T], work: Coroutine[Any, Any, Any]) -> AsyncIterator[T]:
    """Yield the items that `work` adds to the feed in Muster's thread, until `work` ends."""
    working = get_background().start(feed.fill_from(work))
    try:
        while (several := await _run_there(feed.take())) is not None:
            for one in several:
                yield one
        await asyncio.wrap_future(working)
    finally:
        working.cancel()
