"""Keep the newest decisions of an engine in memory, and log each of them at debug level.

The parts of the engine add records, and a host may store them (`cluster.decisions`). Adding a record never blocks.
"""

import logging
from collections import deque
from collections.abc import Callable
from itertools import islice

import msgspec

from muster.api.ours.decisions import STANDING, Decision, Subject, What

# The maximum number of decisions in memory: some megabytes.
MOST = 10_000

# The number of jobs whose last record is remembered. A job that was dropped may get the same record twice.
_MOST_JOBS = 100_000

log = logging.getLogger(__name__)


class DecisionLog:
    """The newest decisions of an engine, in order.

    count: how many decisions were ever added, including decisions that were dropped from memory.
    """

    def __init__(self, most: int = MOST) -> None:
        self.count = 0
        self._listeners: list[Callable[[], None]] = []
        self._newest: deque[Decision] = deque(maxlen=most)
        self._last: dict[tuple[str, str], tuple[What, str]] = {}  # the last decision about each job, and its rule

    def __len__(self) -> int:
        return len(self._newest)

    def is_news(self, subject: Subject, what: What, rule: str) -> bool:
        """Return whether a decision differs from the last recorded decision about the same job."""
        return self._last.get((subject.job, subject.uid)) != (what, rule)

    def add(self, decision: Decision) -> None:
        """Add a decision, log it at debug level, and call the listeners.

        A state that continues, such as a wait, is added only once.
        """
        key, entry = (decision.job, decision.uid), (decision.what, decision.rule)
        if decision.what in STANDING and self._last.get(key) == entry:
            return
        self._last.pop(key, None)
        if len(self._last) >= _MOST_JOBS:
            for old in list(islice(self._last, _MOST_JOBS // 10)):
                del self._last[old]
        self._last[key] = entry
        self._newest.append(decision)
        self.count += 1
        for listener in self._listeners:
            listener()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s", msgspec.json.encode(decision).decode())

    def on_add(self, listener: Callable[[], None]) -> None:
        """Register a listener that is called after each addition. It must not block."""
        self._listeners.append(listener)

    def since(self, count: int) -> list[Decision]:
        """Return the decisions after the first `count`, without those dropped from memory."""
        wanted = min(self.count - count, len(self._newest))
        return list(islice(reversed(self._newest), wanted))[::-1] if wanted > 0 else []
