"""Controllers: one reconcile per key at a time, retries that wait, stops that cut nothing."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.runtime.conftest import THING, MemoryServer, Thing

from muster.api.status import ApiError, Status, StatusCause, StatusDetails, conflict, not_found, too_many_requests
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.controller import (
    CONFLICT_SECONDS,
    UNANSWERED_LOG_SECONDS,
    Controller,
    Reconcile,
    Result,
)
from muster.runtime.control.queue import WorkQueue
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.transport import TransportError

CLOCK = VirtualClock()


class Ear:
    """An observer that writes down how reconciles ended."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.seconds: list[float] = []
        self.attached: list[tuple[WorkQueue, int]] = []

    def attach(self, queue: WorkQueue, workers: int) -> None:
        self.attached.append((queue, workers))

    def reconciled(self, result: str, seconds: float) -> None:
        self.outcomes.append(result)
        self.seconds.append(seconds)

    def added(self) -> None: ...
    def retried(self) -> None: ...
    def started(self, waited_seconds: float) -> None: ...
    def finished(self, worked_seconds: float) -> None: ...


def make(reconcile: Reconcile, **options: Any) -> Controller:
    return Controller("test", reconcile, CLOCK, Random(seed=1), **options)


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    try:
        yield task
        await controller.stop()
        await task
    finally:
        task.cancel()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    run_virtual(main())


def test_result_says_when_to_look_again() -> None:
    seen: list[tuple[str, float]] = []
    answers: dict[str, list[Result]] = {"a": [10.0, None], "b": [None]}

    async def reconcile(key: str) -> Result:
        seen.append((key, CLOCK.monotonic()))
        return answers[key].pop(0)

    async def test() -> None:
        ear = Ear()
        controller = make(reconcile, observer=ear)
        controller.queue.add("a")
        controller.queue.add("b")
        async with running(controller):
            await CLOCK.sleep(100)
        assert seen == [("a", 0), ("b", 0), ("a", 10)]
        assert ear.outcomes == ["requeue_after", "success", "success"]
        assert ear.attached == [(controller.queue, 1)]

    run(test)


def test_workers_work_at_the_same_time_but_never_on_one_key() -> None:
    busy: set[str] = set()
    most = 0

    async def reconcile(key: str) -> Result:
        nonlocal most
        assert key not in busy
        busy.add(key)
        most = max(most, len(busy))
        await CLOCK.sleep(1)
        busy.remove(key)
        return None

    async def test() -> None:
        controller = make(reconcile, workers=3)
        async with running(controller):
            for _ in range(50):
                for key in "abcdef":
                    controller.queue.add(key)
                await CLOCK.sleep(0.3)
            await CLOCK.sleep(10)
        assert most == 3

    run(test)


def test_error_is_tried_again_later_and_later() -> None:
    times: list[float] = []

    async def reconcile(key: str) -> Result:
        times.append(CLOCK.monotonic())
        if len(times) < 8:
            raise ZeroDivisionError("by zero")
        return None

    async def test() -> None:
        ear = Ear()
        controller = make(reconcile, observer=ear)
        controller.queue.add("a")
        async with running(controller):
            await CLOCK.sleep(100)
        gaps = [after - before for before, after in pairwise(times)]
        assert len(gaps) == 7
        assert all(0.005 * 2**n <= gap < 0.005 * 2 ** (n + 1) for n, gap in enumerate(gaps))
        assert ear.outcomes == ["error"] * 7 + ["success"]
        assert controller.queue.failures("a") == 0

    run(test)


def test_one_key_that_fails_does_not_hold_up_others() -> None:
    done: list[str] = []

    async def reconcile(key: str) -> Result:
        if key == "bad":
            raise KeyError(key)
        done.append(key)
        return None

    async def test() -> None:
        controller = make(reconcile)
        for key in ("bad", "a", "b"):
            controller.queue.add(key)
        async with running(controller):
            await CLOCK.sleep(1)
        assert done == ["a", "b"]

    run(test)


def logged(caplog: pytest.LogCaptureFixture, error: Exception, times: int) -> list[logging.LogRecord]:
    async def reconcile(key: str) -> Result:
        nonlocal times
        times -= 1
        if times >= 0:
            raise error
        return None

    async def test() -> None:
        controller = make(reconcile)
        controller.queue.add("ns/a")
        async with running(controller):
            await CLOCK.sleep(60)

    with caplog.at_level(logging.INFO, logger="muster"):
        run(test)
    return caplog.records


def test_traceback_of_a_bug_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    records = logged(caplog, ZeroDivisionError("by zero"), 3)
    assert [record.levelname for record in records] == ["ERROR"] * 3
    assert [record.exc_info is not None for record in records] == [True, False, False]
    assert "test: ns/a failed 3 times" in records[2].getMessage()
    assert "ZeroDivisionError: by zero" in records[2].getMessage()
    assert vars(records[0])["controller"] == "test"
    assert vars(records[0])["key"] == "ns/a"


def test_refusals_are_logged_without_traceback(caplog: pytest.LogCaptureFixture) -> None:
    records = logged(caplog, ApiError(Status(code=403, reason="Forbidden", message="not you")), 2)
    assert [record.levelname for record in records] == ["WARNING"] * 2
    assert all(record.exc_info is None for record in records)
    assert "not you" in records[0].getMessage()


def test_server_that_does_not_answer_is_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(key: str) -> Result:
        if key == "ns/idle":
            return None  # it sends nothing, so its success says nothing of the server
        raise TransportError(f"PATCH {key}: Connection refused")

    async def test() -> None:
        controller = make(reconcile)
        async with running(controller):
            for _ in range(3):
                for key in ("ns/a", "ns/idle", "ns/b"):
                    controller.queue.add(key)
                await CLOCK.sleep(UNANSWERED_LOG_SECONDS)

    with caplog.at_level(logging.INFO, logger="muster"):
        run(test)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert "ns/a failed 1 times" in caplog.records[0].getMessage()


def test_conflict_is_quiet_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, conflict("things", "a"), 5) == []


@pytest.mark.parametrize(("event_after", "times"), [(0.03, [0.0, 0.03]), (None, [0.0, CONFLICT_SECONDS])])
def test_a_conflict_is_not_met_again_before_the_watch_shows_the_newer_object(
    event_after: float | None, times: list[float]
) -> None:
    attempts: list[float] = []

    async def reconcile(key: str) -> Result:
        attempts.append(CLOCK.monotonic())
        if CLOCK.monotonic() < times[-1]:
            raise conflict("things", key)
        return None

    async def test() -> None:
        ear = Ear()
        controller = make(reconcile, observer=ear)
        controller.queue.add("a")
        async with running(controller):
            if event_after is not None:
                await CLOCK.sleep(event_after)
                controller.queue.add("a")
            await CLOCK.sleep(60)
        assert (attempts, ear.outcomes) == (times, ["conflict", "success"])

    run(test)


def test_what_has_gone_meanwhile_is_no_failure_unless_it_stays_unfound(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, not_found("things", "a"), 5) == []
    lasting = [record.getMessage() for record in logged(caplog, not_found("things", "a"), 12)]
    assert 0 < len(lasting) < 6
    assert 'things "a" not found' in lasting[0]


def test_what_goes_with_its_namespace_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    details = StatusDetails(causes=(StatusCause(reason="NamespaceTerminating", field="metadata.namespace"),))
    assert logged(caplog, ApiError(Status(code=403, reason="Forbidden", details=details)), 12) == []
    assert logged(caplog, ApiError(Status(code=403, reason="Forbidden")), 1) != []


@pytest.mark.parametrize(("asked", "waited"), [(7, 7), (10**400, 3600)])
def test_server_that_asks_for_patience_gets_it_within_reason(asked: int, waited: int) -> None:
    times: list[float] = []

    async def reconcile(key: str) -> Result:
        times.append(CLOCK.monotonic())
        if len(times) == 1:
            raise too_many_requests("slow down", retry_after_seconds=asked)
        return None

    async def test() -> None:
        ear = Ear()
        controller = make(reconcile, observer=ear)
        controller.queue.add("a")
        async with running(controller):
            await CLOCK.sleep(4000)
        assert times == [0, waited]
        assert ear.outcomes == ["error", "success"]

    run(test)


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_stop_lets_running_reconciles_finish(how: str) -> None:
    """No write is cut off: every reconcile that began has ended, and none begins any more."""
    begun: list[str] = []
    ended: list[str] = []

    async def reconcile(key: str) -> Result:
        begun.append(key)
        await CLOCK.sleep(20)
        ended.append(key)
        return 1.0

    async def test() -> None:
        controller = make(reconcile, workers=2)
        for key in "abcd":
            controller.queue.add(key)
        task = asyncio.create_task(controller.run())
        await CLOCK.sleep(5)
        if how == "stop":
            await controller.stop()
            await task
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert CLOCK.monotonic() == 20
        assert begun == ended == ["a", "b"]
        await CLOCK.sleep(100)
        assert len(begun) == 2

    run(test)


def test_stop_has_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    cut: list[str] = []

    async def reconcile(key: str) -> Result:
        try:
            await CLOCK.sleep(1e6)
        except asyncio.CancelledError:
            cut.append(key)
            raise
        return None

    async def test() -> None:
        controller = make(reconcile, stop_limit_seconds=30)
        controller.queue.add("stuck")
        task = asyncio.create_task(controller.run())
        await CLOCK.sleep(5)
        await controller.stop()
        await task
        assert CLOCK.monotonic() == 35

    run(test)
    assert cut == ["stuck"]
    assert "cut after 30 s while stopping: stuck" in caplog.text


def test_second_cancellation_cuts_at_once() -> None:
    async def reconcile(key: str) -> Result:
        await CLOCK.sleep(1e6)
        return None

    async def test() -> None:
        controller = make(reconcile)
        controller.queue.add("stuck")
        task = asyncio.create_task(controller.run())
        for _ in range(2):
            await CLOCK.sleep(5)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert CLOCK.monotonic() == 10
        await CLOCK.sleep(1)
        assert controller.queue.working == {}

    run(test)


def test_reconciles_that_never_wait_leave_room_for_others() -> None:
    async def reconcile(key: str) -> Result:
        return None

    async def test() -> None:
        controller = make(reconcile)
        for number in range(1000):
            controller.queue.add(str(number))
        async with running(controller):
            turns = 0
            while len(controller.queue):
                await CLOCK.sleep(0)
                turns += 1
            assert turns >= 1000

    run(test)


def test_watch_queues_what_objects_map_to(server: MemoryServer) -> None:
    async def reconcile(key: str) -> Result:
        seen.append((CLOCK.monotonic(), key))
        return None

    seen: list[tuple[float, str]] = []

    async def test() -> None:
        informer: Informer[Thing] = Informer(Client(server), THING, CLOCK, Random(seed=1))
        by_name = make(reconcile)
        by_name.watch(informer)
        by_value = make(reconcile)
        by_value.watch(
            informer,
            lambda obj: [f"value-{obj.value}"],
            when=lambda old, new: (old and old.value) != (new and new.value),
        )
        following = asyncio.create_task(informer.run())
        async with running(by_name), running(by_value):
            await informer.synced.wait()
            server.put("a", 1)
            await CLOCK.sleep(1)
            server.put("a", 1)  # not of interest for the second controller
            await CLOCK.sleep(1)
            server.put("a", 2)  # both the old and the new value are
            await CLOCK.sleep(1)
            server.remove("a")
            await CLOCK.sleep(1)
        following.cancel()
        found = [(int(when), key) for when, key in sorted(seen)]
        assert found == [
            *((0, "default/a"), (0, "value-1")),
            (1, "default/a"),
            *((2, "default/a"), (2, "value-1"), (2, "value-2")),
            *((3, "default/a"), (3, "value-2")),
        ]

    run(test)
