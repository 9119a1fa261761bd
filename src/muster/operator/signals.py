"""What ends a process of the operator: its parts stop in order, however often it is told to."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable
from typing import Any


def stop_on(signals: Iterable[signal.Signals], stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Stop when one of the signals comes. For as long as the running loop lives."""
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()  # the loop holds tasks but weakly
    for number in signals:
        loop.add_signal_handler(number, lambda: stopping.add(asyncio.create_task(stop())))
