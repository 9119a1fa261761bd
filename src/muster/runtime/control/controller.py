"""Run a controller: a queue of keys, some workers, and a function that reconciles one key.

`reconcile(key)` reads the current state, decides, writes, and returns when to reconcile again. It must be idempotent:
it may be killed between any two writes, and may be called again for any reason. Errors never stop a controller: the key
is retried after growing delays. A stop lets the running reconciles finish, so that none is interrupted between two
writes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from muster.api.status import ApiError
from muster.runtime.clock import Clock
from muster.runtime.control.lanes import Lane
from muster.runtime.control.queue import QueueObserver, WorkQueue, namespace_of
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.objects import ignores_status, is_same_but_status, key_of, reads_status
from muster.runtime.transport import TransportError

T = TypeVar("T")

Result: TypeAlias = float | None
"""Seconds until the key needs another look, or None: only if something changes."""

Reconcile: TypeAlias = Callable[[str], Awaitable[Result]]
Outcome: TypeAlias = Literal["success", "requeue_after", "conflict", "error"]

# How long a stop waits for running reconciles before it cancels them.
STOP_LIMIT_SECONDS = 30.0

# A server's Retry-After may be any number.
MOST_RETRY_AFTER_SECONDS = 3600
# NotFound is no failure as long as the retry comes sooner than this: watches may lag as much.
HEARD_WITHIN_SECONDS = 1.0
# A retry before the watch shows the newer object meets the same conflict. The event of that object usually queues the
# key sooner than this; a controller that filters the event retries then.
CONFLICT_SECONDS = 0.1
# How often a controller logs that requests get no response: hundreds of keys may be retried meanwhile.
UNANSWERED_LOG_SECONDS = 10.0

log = logging.getLogger(__name__)


class ControllerObserver(QueueObserver, Protocol):
    """A receiver of a controller's events, for metrics. `muster.runtime.metrics` implements it."""

    def attach(self, queue: WorkQueue, workers: int) -> None:
        """Observe the controller's queue, whose depth may be read at any time, and its number of workers."""
        ...

    def reconciled(self, result: Outcome, seconds: float) -> None:
        """Count one finished reconcile and its duration in seconds."""
        ...


class Controller:
    """A queue of keys, with `workers` workers that call `reconcile`. A key is never in two calls at once."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        clock: Clock,
        random: Random,
        *,
        workers: int = 1,
        observer: ControllerObserver | None = None,
        stop_limit_seconds: float = STOP_LIMIT_SECONDS,
        lane: Callable[[str], Lane] = namespace_of,
    ) -> None:
        self.name = name
        self.queue = WorkQueue(clock, random, name=name, observer=observer, lane=lane)
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._observer = observer
        self._stop_limit = stop_limit_seconds
        self._tasks: list[asyncio.Task[None]] = []
        self._last_error: dict[str, str] = {}  # the errors of the keys that fail now, by key
        self._silent_until = 0.0  # the end of the time in which no line about a missing answer is logged
        if observer:
            observer.attach(self.queue, workers)

    def watch(
        self,
        informer: Informer[T],
        keys: Callable[[T], Iterable[str]] | None = None,
        *,
        when: Callable[[T | None, T | None], bool] | None = None,
        priority: int = 0,
        gather: float = 0.0,
    ) -> None:
        """Queue keys whenever an object of the informer changes.

        keys: returns the keys that an object maps to; None for its own key. The keys of the old and the new state are
        queued; a function that `ignores_status` marks is called only for the new state if only the status changed.
        when: returns whether a change, as (old, new), matters; None for every change.
        gather: the delay in seconds, so that several changes for one key cause one reconcile.
        """
        keys_of = keys or _list_own_key
        may_skip = not reads_status(keys_of)

        def on_change(old: T | None, new: T | None) -> None:
            if when is not None and not when(old, new):
                return
            keys = dict.fromkeys(keys_of(new)) if new is not None else {}
            if old is not None and not (may_skip and new is not None and is_same_but_status(old, new)):
                keys |= dict.fromkeys(keys_of(old))
            for key in keys:
                self.queue.add_after(key, gather, priority)

        informer.on_change(on_change)

    async def run(self) -> None:
        """Work until `stop`.

        A first cancellation also lets the running reconciles finish; a second one cancels them.
        """
        names = [f"{self.name}-{number}" for number in range(self._workers)]
        self._tasks = [asyncio.create_task(self._work(), name=name) for name in names]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await self.stop()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    async def stop(self) -> None:
        """Start no further reconcile and wait for the running ones. After the time limit, cancel and log them."""
        self.queue.shut_down()
        try:
            async with asyncio.timeout(self._stop_limit):
                await self.queue.drain()
        except TimeoutError:
            keys = ", ".join(self.queue.working)
            log.warning("%s: cut after %g s while stopping: %s", self.name, self._stop_limit, keys)
        finally:
            for task in self._tasks:
                task.cancel()

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                await self._attempt(key)
            finally:
                self.queue.done(key)
            # A reconcile may finish without any wait: let the other tasks on the loop run now.
            await self._clock.sleep(0)

    async def _attempt(self, key: str) -> None:
        started = self._clock.monotonic()
        outcome: Outcome
        try:
            after = await self._reconcile(key)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one key, the others go on
            outcome = self._handle_failure(key, error)
        else:
            self.queue.forget(key)
            self._last_error.pop(key, None)
            outcome = "success" if after is None else "requeue_after"
            if after is not None:
                self.queue.add_after(key, after)
        if self._observer:
            self._observer.reconciled(outcome, self._clock.monotonic() - started)

    def _handle_failure(self, key: str, error: Exception) -> Outcome:
        delay = self.queue.add_rate_limited(key, at_least=_find_least_delay(error))
        fields: dict[str, Any] = {"controller": self.name, "key": key, "retry_seconds": round(delay, 3)}
        if _is_behind(error, delay):
            log.debug("%s: %s changed meanwhile, looking again: %s", self.name, key, error, extra=fields)
            return "conflict"
        text = f"{type(error).__name__}: {error}"
        expected = isinstance(error, ApiError | TransportError)
        new = self._last_error.get(key) != text
        self._last_error[key] = text
        log.log(
            self._choose_level(error),
            "%s: %s failed %d times, again in %.3g s: %s",
            self.name,
            key,
            self.queue.failures(key),
            delay,
            error if expected else text,
            exc_info=error if new and not expected else None,
            extra=fields,
        )
        return "error"

    def _choose_level(self, error: Exception) -> int:
        """Return the log level for an error.

        If the server does not respond, every key fails alike, and few lines at a high level suffice.
        """
        if not isinstance(error, TransportError):
            return logging.WARNING if isinstance(error, ApiError) else logging.ERROR
        now = self._clock.monotonic()
        if now < self._silent_until:
            return logging.DEBUG
        self._silent_until = now + UNANSWERED_LOG_SECONDS
        return logging.WARNING


def _find_least_delay(error: Exception) -> float:
    """Return the minimum number of seconds before the retry of a reconcile that failed with this error."""
    if not isinstance(error, ApiError):
        return 0.0
    requested = error.status.details.retry_after_seconds if error.status.details else 0
    lag = CONFLICT_SECONDS if error.reason == "Conflict" else 0.0
    return max(lag, float(min(requested, MOST_RETRY_AFTER_SECONDS)))


def _is_behind(error: Exception, delay: float) -> bool:
    """Return whether an error is expected because the cache is stale: the written object changed or was deleted.

    delay: the seconds until the retry.
    """
    if not isinstance(error, ApiError):
        return False
    return (
        error.reason == "Conflict"
        or error.is_namespace_terminating
        or (error.reason == "NotFound" and delay < HEARD_WITHIN_SECONDS)
    )


@ignores_status
def _list_own_key(obj: Any) -> tuple[str]:
    return (key_of(obj),)
