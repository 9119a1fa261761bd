"""Run coroutines that may need no event loop.

A command that sends a local server one request awaits only blocking calls. `drive` runs such a coroutine without
importing asyncio, which takes longer than the request. Code that needs a loop awaits `ensure_loop` first: `drive` then
starts a loop, and the coroutine continues inside it. Without `drive`, a loop runs anyway, and nothing here has an
effect.
"""

import signal
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
T = TypeVar("T")

# The value that a coroutine yields to `drive` when it needs a loop.
_LOOP_NEEDED = object()


def has_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def drive(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Start an event loop when the coroutine needs one."""
    try:
        wanted = main.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    if wanted is not _LOOP_NEEDED:
        raise RuntimeError("a coroutine without a loop waits for what only a loop brings: it has to await ensure_loop")
    import asyncio

    return asyncio.run(_go_on(main))


async def _go_on(main: Coroutine[Any, Any, T]) -> T:
    return await _run_rest_of(main)


@types.coroutine
def _run_rest_of(main: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    result: T = yield from main
    return result


async def ensure_loop() -> None:
    """Make sure that the rest of the calling coroutine runs inside an event loop."""
    if not has_loop():
        await _ask_for_loop()


@types.coroutine
def _ask_for_loop() -> Generator[Any, Any, None]:
    yield _LOOP_NEEDED


@overload
async def await_all(
    first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B], third: Coroutine[Any, Any, C], /
) -> tuple[A, B, C]: ...
@overload
async def await_all(
    first: Coroutine[Any, Any, A],
    second: Coroutine[Any, Any, B],
    third: Coroutine[Any, Any, C],
    fourth: Coroutine[Any, Any, D],
    /,
) -> tuple[A, B, C, D]: ...
@overload
async def await_all(*reads: Coroutine[Any, Any, T]) -> Sequence[T]: ...
async def await_all(*reads: Coroutine[Any, Any, Any]) -> Sequence[Any]:
    """Return the results of all reads, in order. The reads run concurrently if a loop runs.

    Raises the error of the first failed read in the order of the arguments, so that the error does not depend on
    timing.
    """
    if not has_loop():
        try:
            return [await read for read in reads]
        finally:
            for read in reads:
                read.close()  # after an error, close the reads that have not begun
    import asyncio

    results = await asyncio.gather(*reads, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def make_slots(most: int) -> AbstractAsyncContextManager[None]:
    """Return a context that limits how many tasks are in it concurrently. Without a loop, it sets no limit."""
    if not has_loop():
        return nullcontext()
    import asyncio

    return asyncio.Semaphore(most)


def call_later(seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
    """Call a function after some seconds; return a function that cancels the call.

    Without a loop, a signal interrupts the main thread to make the call. Then only one such call may be pending.
    """
    if has_loop():
        import asyncio

        return asyncio.get_running_loop().call_later(seconds, callback).cancel
    signal.signal(signal.SIGALRM, lambda *_: callback())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return partial(signal.setitimer, signal.ITIMER_REAL, 0)
