"""Requests that end within their time, and those that do not, in virtual time."""

import asyncio

import pytest

from muster.cluster.apiserver.deadlines import Deadlines
from muster.runtime.clock import run_virtual


async def work(deadlines: Deadlines, bound: float, takes: float) -> tuple[str, float]:
    """Return how a request ended, and when."""
    loop = asyncio.get_running_loop()
    try:
        with deadlines.within(bound):
            await asyncio.sleep(takes)
        ended = "done"
    except TimeoutError:
        ended = "late"
    assert asyncio.current_task().cancelling() == 0
    return ended, loop.time()


@pytest.mark.parametrize(
    ("requests", "ends"),
    [
        # Each request: when it begins, its bound, and how long it takes.
        ([(0, 60, 59)], [("done", 59)]),
        ([(0, 60, 61)], [("late", 60)]),
        ([(0, 60, 100), (10, 60, 100)], [("late", 60), ("late", 70)]),
        ([(0, 60, 100), (10, 5, 100)], [("late", 60), ("late", 15)]),
        ([(0, 5, 100), (1, 60, 100)], [("late", 5), ("late", 61)]),
        ([(0, 60, 1), (30, 60, 100)], [("done", 1), ("late", 90)]),
        ([(0, 60, 1), (200, 60, 100)], [("done", 1), ("late", 260)]),
    ],
)
def test_requests_end_by_their_bounds(requests, ends):
    async def body():
        deadlines, start = Deadlines(), asyncio.get_running_loop().time()

        async def request(begins, bound, takes):
            await asyncio.sleep(begins)
            return await work(deadlines, bound, takes)

        results = await asyncio.gather(*[request(*one) for one in requests])
        assert [(ended, pytest.approx(when - start, abs=0.01)) for ended, when in results] == ends

    run_virtual(body())


def test_a_cancellation_from_elsewhere_stays_one():
    """The client hangs up in the moment in which its request is late."""

    async def body():
        deadlines = Deadlines()
        task = asyncio.create_task(work(deadlines, 60, 100))
        asyncio.get_running_loop().call_later(60, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(body())


def test_an_error_of_late_work_stays_that_error():
    async def body():
        with Deadlines().within(60):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise ValueError("refused") from None

    with pytest.raises(ValueError, match="refused"):
        run_virtual(body())


def test_many_requests_have_one_timer(monkeypatch):
    async def body():
        deadlines, loop = Deadlines(), asyncio.get_running_loop()
        timers, call_at = [], loop.call_at

        def count(when, *rest, **context):
            timers.append(when)
            return call_at(when, *rest, **context)

        monkeypatch.setattr(loop, "call_at", count)
        for _ in range(100):
            with deadlines.within(60):
                pass
        assert len(timers) == 1
        await asyncio.sleep(1000)
        assert len(timers) == 2, "that of the sleep: without requests no timer is left"

    run_virtual(body())
