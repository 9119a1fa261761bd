"""Coroutines that need no event loop run without one, and those that need one get it."""

import asyncio
import subprocess
import sys
import time

import pytest

from muster.runtime.eventloop import await_all, call_later, drive, ensure_loop, has_loop, make_slots
from muster.runtime.realclock import RealClock


async def give(value: str) -> str:
    return value


async def fail(error: Exception) -> str:
    raise error


def test_no_loop_runs_until_a_coroutine_asks_for_one() -> None:
    async def main() -> list[bool]:
        seen = [has_loop()]
        await ensure_loop()
        await asyncio.sleep(0)
        seen.append(has_loop())
        await ensure_loop()  # there is one already
        return seen

    assert drive(main()) == [False, True]


def test_an_error_goes_on_to_the_caller_before_and_inside_the_loop() -> None:
    async def main(*, loop: bool) -> None:
        if loop:
            await ensure_loop()
        try:
            await fail(ValueError("first"))
        except ValueError:
            await fail(LookupError("second"))

    for loop in (False, True):
        with pytest.raises(LookupError, match="second"):
            drive(main(loop=loop))


def test_a_wait_that_only_a_loop_ends_is_refused_with_what_to_do() -> None:
    class Future:
        def __await__(self):
            yield self

    async def main() -> None:
        await Future()

    with pytest.raises(RuntimeError, match="has to await ensure_loop"):
        drive(main())


def test_driving_imports_no_asyncio() -> None:
    program = (
        "import sys\n"
        "from muster.runtime.eventloop import await_all, drive\n"
        "from muster.runtime.realclock import RealClock\n"
        "async def main(): await RealClock().sleep(0.001)\n"
        "drive(main())\n"
        "sys.exit('asyncio' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("run", [drive, asyncio.run])
def test_results_come_in_the_order_of_the_reads(run) -> None:
    async def slow() -> str:
        await RealClock().sleep(0.01)
        return "slow"

    async def main() -> list[str]:
        return list(await await_all(slow(), give("b"), give("c"), give("d")))

    assert run(main()) == ["slow", "b", "c", "d"]


@pytest.mark.parametrize("run", [drive, asyncio.run])
@pytest.mark.filterwarnings("error")
def test_the_first_failure_in_the_order_of_the_reads_is_raised(run) -> None:
    async def late() -> str:
        await RealClock().sleep(0.01)
        raise ValueError("of the first read")

    async def main() -> None:
        await await_all(late(), fail(LookupError("of the second read")), give("c"))

    with pytest.raises(ValueError, match="of the first read"):
        run(main())


@pytest.mark.parametrize("run", [drive, asyncio.run])
def test_a_late_call_comes_once_and_a_cancelled_one_does_not(run) -> None:
    calls: list[str] = []

    async def main() -> None:
        call_later(0.01, lambda: calls.append("late"))
        await RealClock().sleep(0.05)
        cancel = call_later(0.01, lambda: calls.append("cancelled"))
        cancel()
        await RealClock().sleep(0.05)

    run(main())
    assert calls == ["late"]


def test_without_a_loop_a_sleep_lasts_as_long_as_it_should() -> None:
    before = time.monotonic()
    drive(RealClock().sleep(0.02))
    assert time.monotonic() - before >= 0.02


def test_slots_bound_tasks_where_there_are_tasks() -> None:
    async def most_inside() -> int:
        slots, inside, most = make_slots(2), 0, 0

        async def work() -> None:
            nonlocal inside, most
            async with slots:
                inside += 1
                most = max(most, inside)
                if has_loop():
                    await asyncio.sleep(0)
                inside -= 1

        await await_all(*(work() for _ in range(5)))
        return most

    assert (asyncio.run(most_inside()), drive(most_inside())) == (2, 1)
