"""Stop a process of the operator on a signal: its parts stop in order, however often the signal comes."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

log = logging.getLogger(__name__)


def stop_on(signals: Iterable[signal.Signals], stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Register handlers that log a signal and call `stop`. The handlers stay for as long as the event loop."""
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()  # the loop references tasks only weakly

    def begin(number: signal.Signals) -> None:
        log.info("%s: stopping", number.name)
        stopping.add(asyncio.create_task(stop()))

    for number in signals:
        loop.add_signal_handler(number, partial(begin, number))
