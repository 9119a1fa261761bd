"""Keep the answers to questions that take long or that no watch keeps up to date, such as the history.

A page does not wait for such an answer: it shows what was known last, and is rendered anew once the answer is there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from muster.api.status import ApiError
from muster.runtime.clock import Clock
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# How long a page that knows no answer yet waits for it.
_PATIENCE_SECONDS = 0.1
# An answer that took long is good for so many times as long, so a question takes a fiftieth of the time at most.
_COST_FACTOR = 50.0
_MOST_KEPT = 50
# The most weight of all answers together. The heaviest are runs of the past (measured: 1.5 KB each).
_MOST_WEIGHT = 30_000
_REFUSALS = (401, 403)

log = logging.getLogger(__name__)


class _Question:
    """A question to the server whose answer pages share.

    asked: when it was asked last. took: the seconds until its last answer. answer: None before the first, and once it
    was dropped. weight: of the answer.
    """

    def __init__(self) -> None:
        self.asked = float("-inf")
        self.took = 0.0
        self.answer: Any = None
        self.weight = 0
        self.task: asyncio.Task[None] | None = None


class Answers:
    """The last answers to slow questions of one viewer's pages. tell: called when an answer has come.

    `close` cancels the questions that are not answered.
    """

    def __init__(self, clock: Clock, tell: Callable[[], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._questions: dict[Hashable, _Question] = {}

    async def ask(
        self,
        key: Hashable,
        lifetime: float,
        find: Callable[[], Awaitable[Any]],
        weigh: Callable[[Any], int] = lambda _: 0,
    ) -> Any:
        """Return the last answer to a question, and ask again in the background if it is old; None while there is none.

        lifetime: for how many seconds an answer is good at least. find: finds an answer, which is never None. A first
        answer is awaited for a moment. weigh: returns how many things a large answer consists of. If all large answers
        together have too many, those that were asked for least recently are dropped, and asked for again once they
        would be old.
        """
        question = self._questions.pop(key, None) or _Question()
        self._questions[key] = question  # the one that was asked last is dropped last
        self._make_room()
        age = self._clock.monotonic() - question.asked
        if question.task is None and age >= max(lifetime, question.took * _COST_FACTOR):
            question.asked = self._clock.monotonic()
            question.task = asyncio.create_task(self._find(question, find, weigh))
        if question.task is not None and question.answer is None:
            await asyncio.wait([question.task], timeout=_PATIENCE_SECONDS)
        return question.answer

    async def close(self) -> None:
        """Cancel all questions that are not answered, and forget the answers."""
        tasks = [one.task for one in self._questions.values() if one.task is not None]
        self._questions.clear()
        await cancel(tasks)

    async def _find(self, question: _Question, find: Callable[[], Awaitable[Any]], weigh: Callable[[Any], int]) -> None:
        try:
            question.answer = await find()
            question.weight = weigh(question.answer)
            self._drop_heavy()
        except (ApiError, TransportError) as error:
            log.info("a question of a page has no answer: %s", error)
            if isinstance(error, ApiError) and error.code in _REFUSALS:
                question.answer, question.weight = None, 0  # the viewer has lost the right to it
        except Exception:
            log.exception("a question of a page of the dashboard failed")
        finally:
            question.task = None
            question.took = self._clock.monotonic() - question.asked
        self._tell()

    def _drop_heavy(self) -> None:
        """Drop the large answers that were asked for least recently while all together weigh too much.

        Their questions stay, so that a page with many answers does not ask for them at each rendering.
        """
        weight = sum(one.weight for one in self._questions.values())
        for question in self._questions.values():  # the one that was asked last comes last
            if weight <= _MOST_WEIGHT:
                return
            if question.weight:
                weight -= question.weight
                question.answer, question.weight = None, 0

    def _make_room(self) -> None:
        while len(self._questions) > _MOST_KEPT:
            oldest = self._questions.pop(next(iter(self._questions)))
            if oldest.task is not None:
                oldest.task.cancel()
