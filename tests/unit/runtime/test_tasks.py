"""Tasks together, and work beside the loop."""

import asyncio
import threading

import pytest

from muster.runtime.clock import run_virtual
from muster.runtime.tasks import cancel, first, in_daemon, together


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
        await first(after(2, "late"), after(1, "early"))
        assert ended == ["early", "late"]
        with pytest.raises(ValueError, match="fails"):
            await first(after(1, "fails"), after(2, "late"))

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
            await together(part("work", work), part("beside", beside))
        except ValueError as error:
            return str(error)
        return ""

    assert run_virtual(main()) == raised
    assert heard == ended
