"""Tasks together, and work beside the loop."""

import asyncio
import gc
import threading
from contextlib import aclosing

import pytest

from muster.runtime.clock import run_virtual
from muster.runtime.tasks import cancel, finish_thread, in_daemon, run_together, run_until_first, yield_ended_in_order


def test_all_have_ended_however_they_do() -> None:
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            ended.append("stubborn")

    async def failing() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise ValueError("it fails instead") from None

    async def main() -> None:
        tasks = [asyncio.create_task(stubborn()), asyncio.create_task(failing())]
        await asyncio.sleep(1)
        await cancel(tasks)
        assert ended == ["stubborn"]
        assert isinstance(tasks[1].exception(), ValueError)
        await cancel([])

    run_virtual(main())


def test_a_daemon_returns_and_raises_what_its_work_does() -> None:
    def fail() -> None:
        raise ValueError("it fails")

    async def main() -> None:
        assert await in_daemon(threading.current_thread, "worker") is not threading.current_thread()
        with pytest.raises(ValueError, match="it fails"):
            await in_daemon(fail, "worker")

    asyncio.run(main())


def test_work_that_goes_on_keeps_neither_a_cancellation_nor_the_end_of_the_loop() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()
        ended.set()

    async def main() -> None:
        waiting = asyncio.create_task(in_daemon(work, "worker"))
        await asyncio.to_thread(begun.wait)
        await cancel([waiting])
        assert waiting.cancelled()

    asyncio.run(main())
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)


def test_the_first_ends_the_wait_and_the_others() -> None:
    ended: list[str] = []

    async def after(seconds: float, name: str) -> None:
        try:
            await asyncio.sleep(seconds)
            if name == "fails":
                raise ValueError(name)
        finally:
            ended.append(name)

    async def main() -> None:
        await run_until_first(after(2, "late"), after(1, "early"))
        assert ended == ["early", "late"]
        with pytest.raises(ValueError, match="fails"):
            await run_until_first(after(1, "fails"), after(2, "late"))

    run_virtual(main())


@pytest.mark.parametrize(
    ("work", "beside", "raised", "ended"),
    [
        (3, 1000, "", ["work", "beside"]),
        (3, 1, "", ["beside", "work"]),
        (-3, 1000, "work", ["work", "beside"]),
        (1000, -3, "beside", ["beside", "work"]),
    ],
)
def test_the_first_failure_ends_all_and_so_does_the_end_of_the_work(
    work: int, beside: int, raised: str, ended: list[str]
) -> None:
    """A number of seconds; below zero it fails then."""
    heard: list[str] = []

    async def part(name: str, seconds: int) -> None:
        try:
            await asyncio.sleep(abs(seconds))
            if seconds < 0:
                raise ValueError(name)
        finally:
            heard.append(name)

    async def main() -> str:
        try:
            await run_together(part("work", work), part("beside", beside))
        except ValueError as error:
            return str(error)
        return ""

    assert run_virtual(main()) == raised
    assert heard == ended


def test_works_run_a_few_at_a_time_and_come_out_in_their_order() -> None:
    running, most = 0, 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(10 - number % 10)
        running -= 1
        return number

    async def main() -> list[int]:
        return [task.result() async for task in yield_ended_in_order((work(number) for number in range(25)), 4)]

    assert run_virtual(main()) == list(range(25))
    assert most == 4


def test_who_leaves_early_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.sleep(number)
            raise ValueError(number)
        finally:
            ended.append(number)

    async def main() -> None:
        async with aclosing(yield_ended_in_order((work(min(number, 2)) for number in (1, 1, 3)), 3)) as tasks:
            async for task in tasks:
                with pytest.raises(ValueError, match="1"):
                    task.result()
                return

    run_virtual(main())
    gc.collect()
    assert ended == [1, 1, 2]
    assert not caplog.records


@pytest.mark.parametrize("fails", [False, True])
def test_repeated_cancellations_wait_for_the_thread(fails: bool) -> None:
    release = threading.Event()
    ended: list[str] = []

    def work() -> None:
        release.wait(10)
        ended.append("thread")
        if fails:
            raise ValueError("nobody asks for it")

    async def main() -> None:
        task = asyncio.create_task(finish_thread(work))
        for _ in range(3):
            await asyncio.sleep(0.01)
            task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["thread"]

    asyncio.run(main())


def test_a_finished_thread_tells_its_result_or_its_error() -> None:
    assert asyncio.run(finish_thread(int, "3")) == 3
    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(finish_thread(int, "three"))
