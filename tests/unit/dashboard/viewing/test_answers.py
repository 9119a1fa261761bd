"""Answers that take long do not keep a page waiting."""

import asyncio
from collections.abc import Awaitable, Callable

from muster.api.status import not_found, unauthorized
from muster.dashboard.viewing.answers import Answers
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.transport import TransportError


class Oracle:
    """Answers after some time, and counts how often it was asked and how often answers were told."""

    def __init__(self, seconds: float = 5.0, error: Exception | None = None) -> None:
        self.clock = VirtualClock()
        self.answers = Answers(self.clock, self._hear)
        self.asked = self.told = 0
        self._seconds = seconds
        self.error = error

    def _hear(self) -> None:
        self.told += 1

    async def ask(self, key: str = "key") -> str | None:
        answer: str | None = await self.answers.ask(key, 30.0, self._find)
        return answer

    async def _find(self) -> str:
        self.asked += 1
        number = self.asked
        await self.clock.sleep(self._seconds)
        if self.error is not None:
            raise self.error
        return f"answer {number}"


def play(oracle: Oracle, scenario: Callable[[Oracle], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(oracle)
        await oracle.answers.close()

    run_virtual(run())


def test_heavy_answers_of_many_questions_are_bounded_together() -> None:
    async def scenario(oracle: Oracle) -> None:
        async def ask(number: int) -> str | None:
            answer: str | None = await oracle.answers.ask(number, 30.0, oracle._find, lambda _: 10_000)
            return answer

        for number in range(4):
            assert await ask(number) is not None
        assert oracle.asked == 4
        assert [await ask(number) is not None for number in range(4)] == [False, True, True, True]
        assert oracle.asked == 4, "an answer that was dropped is not asked for again early"
        await oracle.clock.sleep(31)
        assert await ask(0) is not None

    play(Oracle(0.01), scenario)


def test_a_light_answer_stays_when_heavy_ones_are_dropped() -> None:
    async def scenario(oracle: Oracle) -> None:
        assert await oracle.ask() == "answer 1"
        for number in range(4):
            await oracle.answers.ask(number, 30.0, oracle._find, lambda _: 10_000)
        assert await oracle.answers.ask(0, 30.0, oracle._find, lambda _: 10_000) is None
        assert await oracle.ask() == "answer 1"

    play(Oracle(0.01), scenario)


def test_a_page_shows_the_last_answer_and_is_told_of_the_next() -> None:
    async def scenario(oracle: Oracle) -> None:
        began = oracle.clock.monotonic()
        assert await oracle.ask() is None
        assert oracle.clock.monotonic() - began < 1
        await oracle.clock.sleep(5)
        assert (await oracle.ask(), oracle.asked, oracle.told) == ("answer 1", 1, 1)
        await oracle.clock.sleep(26)
        assert (await oracle.ask(), oracle.asked) == ("answer 1", 1)
        await oracle.clock.sleep(0.1)
        assert oracle.asked == 2
        await oracle.clock.sleep(5)
        assert (await oracle.ask(), oracle.told) == ("answer 2", 2)

    play(Oracle(0.5), scenario)


def test_what_takes_long_is_asked_rarely() -> None:
    async def scenario(oracle: Oracle) -> None:
        for _ in range(300):
            await oracle.ask()
            await oracle.clock.sleep(1)
        assert oracle.asked == 2  # it takes five seconds, and is good for 250

    play(Oracle(), scenario)


def test_a_quick_answer_is_waited_for() -> None:
    async def scenario(oracle: Oracle) -> None:
        assert await oracle.ask() == "answer 1"

    play(Oracle(0.01), scenario)


def test_many_pages_ask_once() -> None:
    async def scenario(oracle: Oracle) -> None:
        assert await asyncio.gather(*(oracle.ask() for _ in range(50))) == [None] * 50
        assert oracle.asked == 1

    play(Oracle(), scenario)


def test_a_question_without_an_answer_is_not_asked_all_the_time() -> None:
    async def scenario(oracle: Oracle) -> None:
        for _ in range(10):
            assert await oracle.ask() is None
            await oracle.clock.sleep(1)
        assert oracle.asked == 1
        await oracle.clock.sleep(30)
        await oracle.ask()
        await oracle.clock.sleep(1)
        assert oracle.asked == 2

    for error in (not_found("kind", "name"), ValueError("a mistake")):
        play(Oracle(0.01, error), scenario)


def test_only_so_many_answers_are_kept() -> None:
    async def scenario(oracle: Oracle) -> None:
        for number in range(200):
            await oracle.ask(str(number))
        assert oracle.asked == 200
        await oracle.ask("199")
        assert oracle.asked == 200
        await oracle.ask("0")
        assert oracle.asked == 201

    play(Oracle(0.0), scenario)


def test_an_answer_is_dropped_with_the_right_to_it() -> None:
    async def scenario(oracle: Oracle) -> None:
        assert await oracle.ask() == "answer 1"
        for error, known in ((TransportError("away"), "answer 1"), (unauthorized(), None)):
            oracle.error = error
            await oracle.clock.sleep(31)
            await oracle.ask()
            await oracle.clock.sleep(1)
            assert await oracle.ask() == known

    play(Oracle(0.01), scenario)
