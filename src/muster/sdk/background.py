"""The thread in which everything asynchronous happens, whatever the caller's thread is about.

So it works in a notebook, where a loop runs already, and a cluster of this process goes on while the caller computes.
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
from muster.sdk.threads import LastingThreads

T = TypeVar("T")

_TURN = threading.Lock()


class Background:
    """A loop in a thread, and the connections that live on it. Both end with the process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(LastingThreads())
        self.connections = Connections()
        self._works: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="muster", daemon=True)
        self._thread.start()
        atexit.register(self._close)
        os.register_at_fork(after_in_child=self._forget)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Have it done, and wait for it, for so many seconds. Raises what it raises; expected failures as `Error`."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this cannot wait in muster's own thread, which would do the work")
        doing = self.start(work)
        try:
            return doing.result(timeout)
        finally:
            doing.cancel()  # if the caller was interrupted

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Have it done meanwhile."""
        return asyncio.run_coroutine_threadsafe(self._do(work), self._loop)

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None, "it runs in the loop"
        self._works.add(task)
        try:
            return await _plain(work)
        finally:
            self._works.discard(task)

    def _close(self) -> None:
        if os.getpid() != self._process:
            return  # of a fork
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _forget(self) -> None:
        """In a fork, all that is open here is the parent's.

        Nothing of it may be ended, not by the end of Python either: so one reference is never given back.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    async def _leave(self) -> None:
        await cancel({task for task in self._works if not task.cancelling()})
        if self._works:
            await asyncio.wait(self._works)  # what was cancelled before tidies up, and needs its connection for that
        await self.connections.close()
        await cancel(asyncio.all_tasks() - {asyncio.current_task()})


def background() -> Background:
    """That of this process: a thread does not come along to a forked one."""
    with _TURN:
        return _of(os.getpid())


@cache
def _of(_pid: int) -> Background:
    return Background()


async def _plain(work: Coroutine[Any, Any, T]) -> T:
    """The same, with what is expected to go wrong as `Error`."""
    from muster.api.status import ApiError
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.transport import TransportError

    try:
        return await work
    except (ApiError, TransportError, KubeconfigError, UserError) as error:
        raise Error(str(error)) from error
