"""Virtual time: quick, in order, and honest about what it cannot wait for."""

import asyncio
import hashlib
import subprocess
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from muster.runtime import clock as clock_module
from muster.runtime.clock import (
    DeadlockError,
    OutsideWorldError,
    RealClock,
    StandstillError,
    VirtualClock,
    run_virtual,
)


def test_five_minutes_pass_without_waiting() -> None:
    async def main() -> tuple[float, timedelta]:
        clock = VirtualClock()
        before = clock.now()
        await clock.sleep(300)
        return clock.monotonic(), clock.now() - before

    real = time.monotonic()
    assert run_virtual(main()) == (300.0, timedelta(minutes=5))
    assert time.monotonic() - real < 60  # far below five minutes, whatever the machine is doing


def test_virtual_time_passes_while_another_loop_runs_in_the_thread() -> None:
    async def sleep_for_an_hour() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    async def main() -> float:
        return run_virtual(sleep_for_an_hour())

    assert asyncio.run(main()) == 3600.0


def test_starts_where_it_is_told() -> None:
    start = datetime(2030, 5, 17, 12, tzinfo=UTC)

    async def main() -> datetime:
        return VirtualClock(start).now()

    assert run_virtual(main()) == start


def test_years_pass_without_losing_timers() -> None:
    async def main() -> list[float]:
        clock = VirtualClock()
        woken = []
        for seconds in (1e8, 0.0, 1e-6, 1e9, 3.0):
            await clock.sleep(seconds)
            woken.append(clock.monotonic())
        return woken

    assert run_virtual(main()) == pytest.approx([1e8, 1e8, 1e8 + 1e-6, 1.1e9, 1.1e9 + 3], rel=1e-14)


async def _crowd() -> str:
    """Many tasks that wait, wake and signal each other; the order in which they do it, as a hash."""
    clock = VirtualClock()
    trace: list[tuple[float, int, int]] = []
    condition = asyncio.Condition()

    async def member(number: int) -> None:
        for turn in range(20):
            await clock.sleep((number * 7919 + turn * 104729) % 13 / 4)
            async with condition:
                condition.notify(2)
                trace.append((clock.monotonic(), number, turn))
                if turn % 5 == 4:
                    try:
                        async with asyncio.timeout(1.5):
                            await condition.wait()
                    except TimeoutError:
                        trace.append((clock.monotonic(), number, -turn))

    await asyncio.gather(*(member(number) for number in range(50)))
    return hashlib.sha256(repr(trace).encode()).hexdigest()


def test_order_of_events_is_the_same_on_every_run() -> None:
    assert len({run_virtual(_crowd()) for _ in range(5)}) == 1


def test_timeouts_and_call_later_are_virtual() -> None:
    async def main() -> list[object]:
        loop = asyncio.get_running_loop()
        seen: list[object] = []
        loop.call_later(7, seen.append, "called")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await loop.create_future()
        return [*seen, loop.time()]

    assert run_virtual(main()) == ["called", 10.0]


def test_deadlock_names_who_waits_and_where() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(waits_for_ever(), name="the-sleeper")

    with pytest.raises(DeadlockError) as caught:
        run_virtual(main())
    assert "the-sleeper: " in str(caught.value)
    assert "waits_for_ever (test_clock.py:" in str(caught.value)
    assert "Event.wait (locks.py:" in str(caught.value)


def test_deadlock_report_is_bounded() -> None:
    async def main() -> None:
        await asyncio.gather(*(asyncio.Event().wait() for _ in range(200)))

    with pytest.raises(DeadlockError, match="and 151 more"):
        run_virtual(main())


def test_busy_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "STANDSTILL_TURNS", 1000)

    async def spins() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(StandstillError, match="spins"):
        run_virtual(spins())


def test_time_that_passes_is_no_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "STANDSTILL_TURNS", 10)

    async def main() -> None:
        for _ in range(100):
            await asyncio.sleep(0.001)

    run_virtual(main())


async def _thread() -> None:
    await asyncio.to_thread(time.sleep, 0)


async def _executor() -> None:
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 0)


async def _process() -> None:
    await asyncio.create_subprocess_exec("true", stdin=subprocess.DEVNULL)


async def _shell() -> None:
    await asyncio.create_subprocess_shell("true")


async def _name_lookup() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)


async def _descriptor() -> None:
    asyncio.get_running_loop().add_reader(0, print)


@pytest.mark.parametrize("outside", [_thread, _executor, _process, _shell, _name_lookup, _descriptor])
def test_outside_world_is_refused(outside: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await outside()

    with pytest.raises(OutsideWorldError, match="virtual time"):
        run_virtual(main())


def test_result_and_errors_come_through() -> None:
    async def fails() -> None:
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        run_virtual(fails())


def test_real_clock_agrees_with_the_loop() -> None:
    async def main() -> None:
        clock = RealClock()
        assert clock.now().tzinfo is UTC
        assert abs(clock.monotonic() - asyncio.get_running_loop().time()) < 5
        await clock.sleep(0)

    asyncio.run(main())
