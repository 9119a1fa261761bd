"""Run tasks concurrently, and run work in threads next to the event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")


async def cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until all of them are done, whatever their results."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def run_until_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Run coroutines until the first one returns, then cancel the others. Raises the error of the first one."""
    tasks = [asyncio.create_task(each) for each in waits]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(tasks)
    for task in ended:
        task.result()


async def run_together(work: Coroutine[Any, Any, T], *beside: Coroutine[Any, Any, None]) -> T:
    """Run `work` and return its result; run the other coroutines until then, and cancel them afterwards.

    The first failure of any of them cancels all, and is raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(each) for each in beside]
            result = await group.create_task(work)
            for other in others:
                other.cancel()
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return result


async def yield_ended_in_order(
    works: Iterable[Coroutine[Any, Any, T]], most: int
) -> AsyncGenerator[asyncio.Task[T], None]:
    """Run the coroutines, at most `most` concurrently; yield the done task of each, in order.

    Leaving the iteration cancels the tasks that still run; close the generator to wait until they are done.
    """
    running: deque[asyncio.Task[T]] = deque()
    coming = iter(works)
    try:
        while True:
            running.extend(asyncio.create_task(work) for work in islice(coming, most - len(running)))
            if not running:
                return
            await asyncio.wait([running[0]])
            yield running.popleft()
    finally:
        await cancel(running)  # asyncio prints no error of a cancelled task that nobody asks for


async def wait_through_cancellation(working: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until a future is done, even if the wait is cancelled.

    Return the last cancellation; None if there was none.
    """
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def finish_thread(work: Callable[..., T], *args: Any) -> T:
    """Run `work` in a thread; return its result or raise its error.

    A cancellation, even a repeated one, is raised only after the thread has finished.
    """
    # A future of the thread instead of a task: no cancellation reaches it, not even at the end of the loop.
    working = asyncio.get_running_loop().run_in_executor(None, partial(copy_context().run, work, *args))
    cancelled = await wait_through_cancellation(working)
    if cancelled is None:
        return working.result()
    working.exception()  # else asyncio logs an error that no caller has asked for
    raise cancelled


async def in_daemon(work: Callable[[], T], name: str) -> T:
    """Run `work` in a daemon thread; return its result or raise its error.

    Neither a cancellation nor the exit of the process waits for the thread.
    """
    done: Future[T] = Future()

    def run() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - it is for who waits
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(done)
