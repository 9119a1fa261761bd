"""End a command that waits for output to print, when the reader of its output is gone.

A command that represents another program, such as `muster run`, ends only when it writes without a reader, as programs
do.
"""

import asyncio
import errno
import os
import select
import stat
from collections.abc import Coroutine
from typing import Any, TypeVar

from muster.cli.terminal.streams import OUT, OutputError
from muster.runtime.tasks import run_together

T = TypeVar("T")


async def while_read(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` and return its result. If nothing reads stdout any more, cancel `work` and raise `OutputError`."""
    return await run_together(work, _wait_until_unread())


async def _wait_until_unread() -> None:
    """Wait until the reader of stdout (a pipe or a socket) is gone; then raise `OutputError`, as a write would.

    Return at once if stdout is neither.
    """
    mode = os.fstat(OUT).st_mode
    if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
        return
    loop, reader_gone = asyncio.get_running_loop(), asyncio.Event()
    with select.epoll() as ends:
        ends.register(OUT, 0)  # epoll reports a closed other end even for an empty mask
        loop.add_reader(ends.fileno(), reader_gone.set)
        try:
            await reader_gone.wait()
        finally:
            loop.remove_reader(ends.fileno())
    raise OutputError(OSError(errno.EPIPE, os.strerror(errno.EPIPE)))
