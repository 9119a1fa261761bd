"""Threads for blocking work of the event loop."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8


class LastingThreads(ThreadPoolExecutor):
    """An executor that accepts work until the process ends.

    A `ThreadPoolExecutor` accepts none once the main thread has ended, which is too early to stop a cluster that other
    threads may still use. So this executor starts all its threads at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        for number in range(_THREADS):
            Thread(target=self._run, name=f"muster-{number}", daemon=True).start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Submit a function; return its future."""
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
