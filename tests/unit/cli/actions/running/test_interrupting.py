"""Ctrl-C while a job is watched."""

import asyncio
import signal
from functools import partial

import pytest

from muster.api.status import forbidden, not_found
from muster.cli.actions.running.interrupting import Cancelling
from muster.runtime.clock import run_virtual
from muster.runtime.transport import TransportError

WORD = "cancelling j (again to leave at once)"


def press(times, *results):
    """Press Ctrl-C so often, a second between; a deletion takes half a second and ends like this, or never."""
    log, left = list(results), iter(range(100))

    async def delete():
        await asyncio.sleep(0.5)
        result = log.pop(0)
        if result == "hangs":
            await asyncio.Event().wait()
        if isinstance(result, Exception):
            raise result

    async def main():
        said: list[str] = []
        leaving: list[int] = []
        cancelling = Cancelling("j", delete, lambda: leaving.append(next(left)), said.append)
        before = cancelling.has_begun
        for _ in range(times):
            cancelling.interrupt()
            await asyncio.sleep(1)
        assert (before, cancelling.has_begun) == (False, True)
        await cancelling.close()
        return said, len(leaving)

    return run_virtual(main())


@pytest.mark.parametrize("result", [None, "hangs", not_found("jobs.batch", "j")])
def test_the_first_deletes_and_the_second_leaves(result):
    assert press(1, result) == ([WORD], 0)
    assert press(2, result) == ([WORD], 1)


@pytest.mark.parametrize("error", [forbidden("you may not"), TransportError("connection refused")])
def test_a_deletion_that_fails_is_said_and_tried_once_more(error):
    failed = f"could not cancel j: {error} (again to try once more)"
    assert press(1, error) == ([WORD, failed], 0)
    assert press(2, error, None) == ([WORD, failed, WORD], 0)
    assert press(3, error, None) == ([WORD, failed, WORD], 1)
    assert press(2, error, error) == ([WORD, failed, WORD, f"could not cancel j, leaving it: {error}"], 1)


def test_a_terminal_that_closes_says_so_more_than_once_and_the_code_is_of_the_first_signal():
    async def main():
        leaving: list[int] = []
        cancelling = Cancelling("j", partial(asyncio.sleep, 1), lambda: leaving.append(1), lambda _: None)
        for number in (signal.SIGHUP, signal.SIGHUP):
            cancelling.interrupt(number)
        assert (cancelling.code, leaving) == (129, [])
        cancelling.interrupt(signal.SIGTERM)
        assert (cancelling.code, leaving) == (129, [1])
        await cancelling.close()

    run_virtual(main())


def test_a_job_is_left_only_without_an_interrupt_before_and_none_counts_after_it():
    said: list[str] = []
    cancelling = Cancelling("j", partial(asyncio.sleep, 1), lambda: said.append("left"), said.append)
    assert cancelling.leave_job()
    cancelling.record_signal(signal.SIGTERM)
    cancelling.interrupt(signal.SIGTERM)
    assert (cancelling.has_begun, said) == (False, [])


def test_a_job_is_not_left_after_an_interrupt_that_the_loop_has_not_come_to():
    async def main():
        said: list[str] = []
        cancelling = Cancelling("j", partial(asyncio.sleep, 1), lambda: None, said.append)
        cancelling.record_signal(signal.SIGTERM)
        assert (cancelling.has_begun, cancelling.leave_job()) == (True, False)
        cancelling.interrupt(signal.SIGTERM)
        assert (cancelling.code, said) == (143, [WORD])
        await cancelling.close()

    run_virtual(main())
