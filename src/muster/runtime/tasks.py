"""Tasks together, and work beside the loop."""

import asyncio
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


async def cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until all of them have ended, however they do."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def in_daemon(work: Callable[[], T], name: str) -> T:
    """What the work returns or raises. A thread does it, for which neither a cancellation nor the process waits."""
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
