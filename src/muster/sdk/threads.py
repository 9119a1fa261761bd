"""An event loop that can run blocking functions in threads until the process ends.

A `ThreadPoolExecutor` accepts no work once the main thread has ended, and cannot even be imported then. That is too
early to start or stop a cluster that other threads use.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_THREADS = 8


class LastingLoop(asyncio.SelectorEventLoop):
    """An event loop that runs blocking functions in `LastingThreads` by default."""

    def __init__(self) -> None:
        super().__init__()
        self._lasting_threads = LastingThreads()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """Run a blocking function in a thread of `executor`; return its future.

        executor: None for the lasting threads.
        """
        return super().run_in_executor(executor or self._lasting_threads, func, *args)


class LastingThreads(Executor):
    """An executor that accepts calls until the process ends. It starts all its threads immediately."""

    def __init__(self) -> None:
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        for number in range(_THREADS):
            Thread(target=self._run, name=f"muster-{number}", daemon=True).start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Queue a function for one of the threads; return its future."""
        future: Future[T] = Future()
        self._works.put((future, partial(fn, *args, **kwargs)))
        return future

    def _run(self) -> None:
        while True:
            future, work = self._works.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is for who waits
                future.set_exception(error)
