"""What is said when a process is told to stop."""

import asyncio
import logging
import os
import signal

import pytest

from muster.operator.signals import stop_on


def test_a_signal_is_said_and_stops(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        stopped = asyncio.Event()

        async def stop() -> None:
            stopped.set()

        stop_on([signal.SIGUSR2], stop)
        os.kill(os.getpid(), signal.SIGUSR2)
        await stopped.wait()

    with caplog.at_level(logging.INFO):
        asyncio.run(body())
    assert "SIGUSR2: stopping" in caplog.messages
