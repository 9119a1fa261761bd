"""The thread that runs all asynchronous work of the SDK, independent of the caller's thread.

The SDK therefore works in a notebook, which already runs an event loop. A cluster inside this process keeps running
while the caller computes.
"""

import asyncio
import atexit
import ctypes
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from muster.actions.errors import UserError
from muster.runtime.tasks import cancel
from muster.sdk.connections import Connections
from muster.sdk.errors import Error
from muster.sdk.threads import LastingLoop

T = TypeVar("T")

_TURN = threading.Lock()


class Background:
    """An event loop in a separate thread, and the connections that use it. Both end with the process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = LastingLoop()
        self.connections = Connections()
        self._works: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="muster", daemon=True)
        self._thread.start()
        atexit.register(self._close)
        os.register_at_fork(after_in_child=self._keep_for_ever)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop, wait up to `timeout` seconds for it, and return its result.

        timeout: None to wait without a limit.

        Raises the errors of the coroutine; expected failures become `Error`. After the timeout the coroutine is
        cancelled, and `TimeoutError` is raised.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call in muster's own thread would wait for itself")
        doing = self.start(work)
        try:
            return doing.result(timeout)
        finally:
            doing.cancel()  # in case the caller was interrupted

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine on the loop; return its future. Expected failures become `Error`.

        Raises `Error` if Python is about to exit.
        """
        if self._closed:
            work.close()
            raise Error(
                "Python ends, and Muster has closed its connections; a function that atexit is to call before that "
                "is registered after the first use of Muster"
            )
        return asyncio.run_coroutine_threadsafe(self._run_work(work), self._loop)

    async def _run_work(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None, "it runs in the loop"
        self._works.add(task)
        try:
            return await _convert_errors(work)
        finally:
            self._works.discard(task)

    def _close(self) -> None:
        if os.getpid() != self._process:
            return  # in a forked process
        self._closed = True
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _keep_for_ever(self) -> None:
        """Keep this object alive in a forked process until it exits; the object was inherited from the parent process.

        Otherwise its finalizers would close the parent's connections.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    async def _cancel_all(self) -> None:
        await cancel({task for task in self._works if not task.cancelling()})
        if self._works:
            await asyncio.wait(self._works)  # work that was cancelled earlier cleans up, which needs its connection
        await self.connections.close()
        await cancel(asyncio.all_tasks() - {asyncio.current_task()})


def get_background() -> Background:
    """Return the `Background` of this process, created at the first call.

    A forked process gets a new one, because it does not inherit threads.
    """
    with _TURN:
        return _make_background(os.getpid())


@cache
def _make_background(_pid: int) -> Background:
    return Background()


async def _convert_errors(work: Coroutine[Any, Any, T]) -> T:
    """Await the coroutine, and return its result. Raises `Error` for expected failures."""
    from muster.api.status import ApiError
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.transport import TransportError

    try:
        return await work
    except (ApiError, TransportError, KubeconfigError, UserError) as error:
        raise Error(str(error)) from error
