"""The line that says how far simulations are."""

from pathlib import Path

from muster.runtime.clock import VirtualClock, run_virtual
from muster.simulation.outcome.progress import ProgressReporter
from muster.simulation.outcome.record import SimulationRecord


def test_the_line_says_how_far_a_simulation_is_twice_a_second():
    async def simulate():
        clock = VirtualClock()
        shown: list[str] = []
        reporter = ProgressReporter(shown.append, clock)
        record = SimulationRecord([])
        record.until = 400.0
        for record.now in (0.0, 50.0, 100.0):
            reporter(record)
            await clock.sleep(0.4)
        return shown

    assert run_virtual(simulate()) == ["1m40s of 6m40s simulated, 0 jobs, 0 ended, about 2.4s left, 4 moments/s"]


def test_the_line_says_how_many_jobs_are_left_of_a_simulation_that_ends_with_its_jobs():
    async def simulate():
        clock = VirtualClock()
        shown: list[str] = []
        reporter = ProgressReporter(shown.append, clock)
        record = SimulationRecord(["w"])
        record.expected = 8
        for number in (record.submit("w", 0, "", 1, 0, 0.0, 1.0) for _ in range(4)):
            record.start(number, 0.0)
            record.end(number, 1.0)
            await clock.sleep(0.5)
        reporter(record)
        return shown

    assert run_virtual(simulate()) == ["0s simulated, 4 of 8 jobs, 4 ended, about 2s left, 0 moments/s"]


def test_the_line_of_a_simulation_that_ends_as_it_begins():
    async def simulate():
        clock = VirtualClock()
        shown: list[str] = []
        reporter = ProgressReporter(shown.append, clock)
        record = SimulationRecord([])
        record.until = 0.0
        await clock.sleep(0.5)
        reporter(record)
        return shown

    assert run_virtual(simulate())[0].startswith("0s simulated, 0")


def test_the_line_counts_simulations_and_the_jobs_that_are_read():
    async def simulate():
        clock = VirtualClock()
        shown: list[str] = []
        reporter = ProgressReporter(shown.append, clock)
        await clock.sleep(10)
        reporter.read(Path("log.swf"), 5_000)
        await clock.sleep(10)
        reporter.count(2, 6)
        return shown

    assert run_virtual(simulate()) == ["read 5,000 jobs of log.swf", "2 of 6 simulations, about 40s left"]
