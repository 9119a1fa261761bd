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

    assert run_virtual(simulate()) == ["1m40s of 6m40s simulated, 0 jobs, 0 ended, 4 moments/s, about 2.4s left"]


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
