"""What is told, for a reader who is slow."""

import asyncio

import pytest

from muster.sdk.feed import MOST_UNTAKEN, Feed


def test_who_tells_waits_for_a_slow_reader_and_nothing_is_lost():
    told: list[int] = []
    most = 0

    async def tell(feed):
        for number in range(1000):
            await feed.tell([number])
            told.append(number)

    async def go():
        nonlocal most
        feed: Feed[int] = Feed()
        telling = asyncio.create_task(feed.fill_from(tell(feed)))
        taken: list[int] = []
        while (some := await feed.take()) is not None:
            taken += some
            for _ in range(50):  # the reader is slow
                await asyncio.sleep(0)
            most = max(most, len(told) - len(taken))
        await telling
        return taken

    assert asyncio.run(go()) == list(range(1000))
    assert most <= MOST_UNTAKEN


def test_the_reader_learns_that_it_has_failed():
    async def fail():
        raise ValueError("lost")

    async def go():
        feed: Feed[int] = Feed()
        feed.mention(1)
        telling = asyncio.create_task(feed.fill_from(fail()))
        assert [await feed.take(), await feed.take()] == [[1], None]
        with pytest.raises(ValueError, match="lost"):
            await telling

    asyncio.run(go())
