"""Whether what a command shows is still read: one that waits for more to show ends when its reader has gone.

Not so one that stands for a program, as `muster run` does: that ends when it writes and has no reader, as programs do.
"""

import asyncio
import errno
import os
import select
import stat
from collections.abc import Coroutine
from typing import Any, TypeVar

from muster.cli.terminal.streams import OUT, OutputError
from muster.runtime.tasks import together

T = TypeVar("T")


async def while_read(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns. Raises `OutputError` as soon as output has no reader any more, and gives the work up."""
    return await together(work, _unread())


async def _unread() -> None:
    """Wait until the reader has gone, and raise what a write would. Only that of a pipe or a socket does so."""
    mode = os.fstat(OUT).st_mode
    if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
        return
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    with select.epoll() as ends:
        ends.register(OUT, 0)  # that its other end is closed is told without being asked for
        loop.add_reader(ends.fileno(), gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(ends.fileno())
    raise OutputError(OSError(errno.EPIPE, os.strerror(errno.EPIPE)))
