"""Cache the results of requests that are slow or cannot be watched, such as the history.

A page does not wait for such a result. It shows the last known result, and is rendered again when a new one arrives.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from muster.api.status import ApiError
from muster.runtime.clock import Clock
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# The seconds for which a page waits for a first result.
_PATIENCE_SECONDS = 0.1
# A result is valid for at least this multiple of the time that it took, so that a request is in progress at most 1/50
# of the time.
_COST_FACTOR = 50.0
_MOST_KEPT = 50
# The maximum weight of all results together. The heaviest results are past runs (measured: 1.5 KB each).
_MOST_WEIGHT = 30_000
_REFUSALS = (401, 403)

log = logging.getLogger(__name__)


class _Question:
    """A request to the server whose result pages share.

    asked: the time of the last request.
    took: the seconds that the last request took.
    answer: the result; None before the first one, and after it was dropped.
    weight: the weight of the result.
    """

    def __init__(self) -> None:
        self.asked = float("-inf")
        self.took = 0.0
        self.answer: Any = None
        self.weight = 0
        self.task: asyncio.Task[None] | None = None


class Answers:
    """The last results of the slow requests of one viewer's pages.

    tell: called when a result has arrived, or a request has failed.

    `close` cancels the pending requests.
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
        """Return the last result of a request, and repeat the request in the background if it is old; None without one.

        lifetime: the minimum number of seconds for which a result is valid.
        find: makes the request; its result is never None.
        weigh: returns how many items a large result has. If all large results have too many items in total, those that
        were used least recently are dropped, and requested again once they would be old.

        A first result is awaited briefly.
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
        """Cancel all pending requests, and drop the results."""
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
                question.answer, question.weight = None, 0  # the viewer has lost the right to see it
        except Exception:
            log.exception("a question of a page of the dashboard failed")
        finally:
            question.task = None
            question.took = self._clock.monotonic() - question.asked
        self._tell()

    def _drop_heavy(self) -> None:
        """Drop large results, least recently used first, while all results together weigh too much.

        Their requests stay recorded, so that a page with many results does not repeat them at each rendering.
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
