"""Tasks together."""

import asyncio

from muster.runtime.clock import run_virtual
from muster.runtime.tasks import cancel


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
