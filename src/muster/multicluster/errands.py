"""Run the writes in worker clusters that decisions require, so that a slow cluster delays only itself.

An *errand* is all the work of one decision about one workload in one cluster. A workload has at most one running errand
in a cluster, and a cluster a limited number of concurrent errands. A later decision replaces an errand that still
waits. A failed errand is retried after growing pauses as long as the same work is wanted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping

from msgspec import Struct, field

from muster.api.status import ApiError
from muster.multicluster.links.sanitizing import one_line
from muster.runtime.clock import Clock
from muster.runtime.control.backoff import Backoff
from muster.runtime.control.controller import Result
from muster.runtime.ids import Random
from muster.runtime.refusals import is_refusal
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# The maximum number of running errands in one cluster.
MOST_AT_ONCE = 16
# The pauses after a refusal, and after a temporary failure, such as a conflict.
PAUSES = Backoff(first=5.0, limit=120.0)
RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


class Errand(Struct, frozen=True):
    """The work for one workload in one cluster.

    what: the purpose; two errands with an equal purpose do the same work.
    run: does the work, and returns the seconds until the next decision about the workload; None for no decision.
    """

    what: Hashable
    run: Callable[[], Awaitable[Result]]


async def await_all_steps(steps: Iterable[Awaitable[Result]]) -> Result:
    """Await all steps concurrently, each until it is done. Raises a failure if there is one.

    Return the smallest number of seconds until a decision; None if no step needs one.
    """
    ends = await asyncio.gather(*steps, return_exceptions=True)
    waits: list[float] = []
    for end in ends:
        if isinstance(end, BaseException):
            raise end
        if end is not None:
            waits.append(end)
    return min(waits, default=None)


class _Failure(Struct, frozen=True):
    what: Hashable
    times: int
    again_at: float
    text: str


class _Lane(Struct):
    """The errands of one cluster, by workload. again: the workloads to decide about after their running errand."""

    waiting: dict[str, Errand] = field(default_factory=dict)
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    failures: dict[str, _Failure] = field(default_factory=dict)


class Errands:
    """The runner of the errands of all workloads: the writes in worker clusters that decisions require."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        decide_again: Callable[[str, float], None],
        failed: Callable[[str, str, Exception], None],
    ) -> None:
        """Create the runner, without errands at first.

        decide_again: requests another decision about a workload in a number of seconds.
        failed: called with the workload's key, the cluster and the error, unless the last error had the same text.
        """
        self._clock, self._random = clock, random
        self._decide_again, self._failed = decide_again, failed
        self._lanes: dict[str, _Lane] = {}

    def want(self, key: str, errands: Mapping[str, Errand]) -> None:
        """Set a workload's errands, by cluster. Drop its waiting errands, and start these when they may run."""
        for cluster, lane in self._lanes.items():
            if cluster not in errands:
                lane.waiting.pop(key, None)
        for cluster, errand in errands.items():
            lane = self._lanes.setdefault(cluster, _Lane())
            if key in lane.running:
                lane.again.add(key)
            elif (pause := self._pause_seconds(lane.failures.get(key), errand)) > 0:
                lane.waiting.pop(key, None)
                self._decide_again(key, pause)
            else:
                lane.waiting[key] = errand
                self._start_errands(cluster, lane)

    def forget(self, key: str) -> None:
        """Drop the waiting errands of a deleted workload."""
        for lane in self._lanes.values():
            lane.waiting.pop(key, None)
            lane.failures.pop(key, None)

    async def close(self) -> None:
        """Cancel all errands."""
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.waiting.clear()
            await cancel(list(lane.running.values()))

    def _pause_seconds(self, failure: _Failure | None, errand: Errand) -> float:
        if failure is None or failure.what != errand.what:
            return 0.0
        return failure.again_at - self._clock.monotonic()

    def _start_errands(self, cluster: str, lane: _Lane) -> None:
        while lane.waiting and len(lane.running) < MOST_AT_ONCE:
            key = next(iter(lane.waiting))
            run = self._run_errand(cluster, lane, key, lane.waiting.pop(key))
            lane.running[key] = asyncio.create_task(run, name=f"multikueue-{cluster}-{key}")

    async def _run_errand(self, cluster: str, lane: _Lane, key: str, errand: Errand) -> None:
        try:
            after = await errand.run()
            lane.failures.pop(key, None)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one errand, the others go on
            after = self._note_failure(error, cluster, lane, key, errand)
        finally:
            del lane.running[key]
        if key in lane.again:
            lane.again.discard(key)
            after = 0.0
        if after is not None:
            self._decide_again(key, after)
        self._start_errands(cluster, lane)

    def _note_failure(self, error: Exception, cluster: str, lane: _Lane, key: str, errand: Errand) -> float:
        """Record the failure of an errand; return the seconds until it is retried."""
        message = one_line(str(error))
        if isinstance(error, TransportError) or is_refusal(error, "Conflict"):
            log.info("worker cluster %s: %s: %s", cluster, key, message)
            return RETRY_SECONDS
        if not isinstance(error, ApiError):
            log.error("worker cluster %s: %s", cluster, key, exc_info=error)
        before, text = lane.failures.get(key), f"{type(error).__name__}: {message}"
        times = before.times + 1 if before is not None and before.what == errand.what else 1
        pause = PAUSES.delay(times, self._random)
        lane.failures[key] = _Failure(errand.what, times, self._clock.monotonic() + pause, text)
        if before is None or before.text != text:
            self._failed(key, cluster, error)
        return pause
