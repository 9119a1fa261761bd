"""Show the progress of simulations as a line of text in a terminal or a notebook, at most twice a second."""

from collections.abc import Callable
from math import inf
from pathlib import Path

from muster.charts.scales import format_span
from muster.runtime.realclock import Clock
from muster.simulation.outcome.record import SimulationRecord

# The minimum number of seconds between two updates.
_SHOW_SECONDS = 0.5


class ProgressReporter:
    """The progress of one or several simulations, passed to `show` as text."""

    def __init__(self, show: Callable[[str], None], clock: Clock) -> None:
        self._show = show
        self._clock = clock
        self._began = self._shown = clock.monotonic()
        self._moments = 0

    def count(self, done: int, total: int) -> None:
        """Show how many of several simulations are done, and how long the remaining ones may take."""
        if (now := self._find_turn()) is not None:
            left = (now - self._began) / done * (total - done) if done else None
            rest = "" if left is None else f", about {format_span(left)} left"
            self._show(f"{done} of {total} simulations{rest}")

    def read(self, file: Path, jobs: int) -> None:
        """Show how many jobs of a log have been read."""
        if self._find_turn() is not None:
            self._show(f"read {jobs:,} jobs of {file}")

    def __call__(self, record: SimulationRecord) -> None:
        """Show the progress of a simulation. To be called after the events of each simulated time."""
        self._moments += 1
        if (now := self._find_turn()) is None:
            return
        took = now - self._began
        share = record.ended / max(record.expected, 1)
        time, jobs = format_span(record.now), f"{len(record):,}"
        if 0 < record.until < inf:
            share = record.now / record.until
            time += f" of {format_span(record.until)}"
        elif record.expected < inf:
            jobs += f" of {record.expected:,}"
        rate = f"{self._moments / took:,.0f} moments/s"
        rest = f", about {format_span(took / share - took)} left" if 0 < share < 1 else ""
        self._show(f"{time} simulated, {jobs} jobs, {record.ended:,} ended{rest}, {rate}")

    def _find_turn(self) -> float | None:
        """Return the current time if an update is due; None otherwise."""
        now = self._clock.monotonic()
        if now - self._shown < _SHOW_SECONDS:
            return None
        self._shown = now
        return now
