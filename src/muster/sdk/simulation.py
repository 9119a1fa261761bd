"""Simulate scenarios from Python. `muster.simulate(scenario)` returns a report on the scenario's jobs."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from muster.charts.scales import format_span
from muster.runtime.realclock import RealClock
from muster.sdk.errors import Error
from muster.simulation.engine.world import Progress
from muster.simulation.outcome.assertions import AssertionResult
from muster.simulation.outcome.comparison import Comparison, SimulationRun
from muster.simulation.outcome.page import render_report
from muster.simulation.outcome.progress import ProgressReporter
from muster.simulation.outcome.record import JobOutcome
from muster.simulation.outcome.report import Report as WholeReport
from muster.simulation.outcome.summary import Summary
from muster.simulation.outcome.timeline import TimelineRow, list_rows
from muster.simulation.runs import list_cases, simulate_all
from muster.simulation.scenario.logs.shelf import LogShelf
from muster.simulation.scenario.model import Scenario
from muster.simulation.scenario.source import UNFILED, ScenarioError
from muster.simulation.simulate import simulate as simulate_one

T = TypeVar("T", bound=Struct)


class Records(list[T]):
    """A list of records that have the same fields."""

    def to_pandas(self) -> Any:
        """Return a DataFrame with a column for each field.

        Raises:
            Error: pandas is not installed.
        """
        try:
            import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise Error("to_pandas needs pandas: pip install pandas") from None
        return pd.DataFrame(msgspec.to_builtins(list(self)))


class Report(Struct, frozen=True):
    """The outcome of a scenario.

    summary, jobs, timeline, verdicts: the results of the scenario itself with its first seed.
    timeline: means over regular time intervals, as in timeline.csv.
    whole: all data of the HTML page.
    runs, comparison: the results of all variants and seeds; None if there is only one.
    """

    summary: Summary
    jobs: Records[JobOutcome]
    timeline: Records[TimelineRow]
    verdicts: Sequence[AssertionResult]
    whole: WholeReport
    runs: Sequence[SimulationRun] | None = None
    comparison: Comparison | None = None

    def html(self) -> str:
        """Return the HTML page about the scenario itself, as written by `muster simulate --report`."""
        return render_report(self.whole)

    def _repr_html_(self) -> str:
        """Return the waiting times by queue as an HTML table, for notebooks."""
        groups = [*self.summary.queues.items(), ("all", self.summary.total)]
        cells = [
            (name, one.submitted, one.ended, "-" if one.wait is None else format_span(one.wait.mean))
            for name, one in groups
        ]
        rows = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in cells)
        return f"<table><tr><th>queue<th>jobs<th>ended<th>mean wait</tr>{rows}</table>"


def simulate(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    seeds: int = 1,
    processes: int = 1,
    assertions: str | Sequence[str] = (),
    progress: bool | Progress | None = None,
) -> Report:
    """Simulate a scenario, and return a report.

    scenario: a file, a folder, or a document; paths in a document are relative to the working directory.
    seeds: the number of seeds with which each variant is simulated.
    processes: the number of variants and seeds to simulate concurrently. A program that sets more than one must call
    this function below `if __name__ == "__main__":`, as `multiprocessing` requires.
    assertions: one or several further assertions to check, in addition to those of the scenario.
    progress: True shows the progress as a line on stderr. A function is called with the current record after each
    moment of the first simulation. A KeyboardInterrupt ends that simulation early, and skips the others.

    Raises `muster.Error` if the scenario cannot be simulated.
    """
    texts = [assertions] if isinstance(assertions, str) else assertions
    origin = str(scenario) if isinstance(scenario, str | Path) else _encode_document(scenario)
    reporter = ProgressReporter(_show_line if progress is True else lambda _: None, RealClock())
    moments = progress if callable(progress) else reporter
    try:
        cases = list_cases([origin], [], None)
        variants = [case.variant for case in cases]
        shelf = LogShelf(reporter.read)
        one = simulate_one(cases[0].origin, assertions=texts, progress=moments, variants=variants, shelf=shelf)
        several = None
        if (len(cases) > 1 or seeds != 1) and not one.stopped:
            several = simulate_all(
                cases, seeds, assertions=texts, processes=processes, first=one, done=reporter.count, shelf=shelf
            )
        if progress is True:
            _show_line(_describe_end(one.summary, 1 if several is None else len(several.runs)))
    except ScenarioError as error:
        raise Error(str(error)) from None
    finally:
        if progress is True:
            print(file=sys.stderr)
    jobs, timeline = Records(one.jobs), Records(list_rows(one.timeline))
    if several is None:
        return Report(one.summary, jobs, timeline, one.verdicts, one)
    return Report(one.summary, jobs, timeline, one.verdicts, one, several.runs, several.comparison)


def _show_line(text: str) -> None:
    """Show a text on stderr in place of the previous text, as in a terminal or a notebook."""
    width = shutil.get_terminal_size().columns - 1  # a wrapped line cannot be overwritten
    print(f"\r{text[:width].ljust(width)}", end="", file=sys.stderr, flush=True)


def _describe_end(summary: Summary, simulations: int) -> str:
    """Return the last text of the progress line: what was simulated."""
    total = summary.total
    several = f", {simulations:,} simulations" if simulations > 1 else ""
    return f"{format_span(summary.seconds)} simulated, {total.submitted:,} jobs, {total.ended:,} ended{several}"


def _encode_document(scenario: Mapping[str, Any] | Scenario) -> bytes:
    """Return the JSON text of a scenario document.

    Raises:
        Error: a number cannot be written in JSON, such as NaN.
    """
    _refuse_no_numbers(msgspec.to_builtins(scenario), "")
    return msgspec.json.encode(scenario)


def _refuse_no_numbers(value: Any, path: str) -> None:
    """Raise `Error` for NaN and infinities in a document, which JSON would encode as null.

    path: the path of `value` in the document, for the message.
    """
    if isinstance(value, float) and not isfinite(value):
        raise Error(f"{UNFILED}: {path}: {value} is no JSON number")
    if isinstance(value, dict):
        for name, one in value.items():
            _refuse_no_numbers(one, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            _refuse_no_numbers(one, f"{path}[{number}]")
