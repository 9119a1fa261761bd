"""`muster simulate`: play a scenario in virtual time, and report the outcome of its jobs."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import TYPE_CHECKING

import click

from muster.charts.scales import format_span
from muster.cli.names.examples import format_examples

if TYPE_CHECKING:
    from muster.simulation.outcome.progress import ProgressReporter
    from muster.simulation.outcome.record import SimulationRecord
    from muster.simulation.outcome.report import Report
    from muster.simulation.outcome.summary import GroupSummary, Summary
    from muster.simulation.simulate import EngineName

# The maximum number of listed jobs that could never run.
_NAMED = 5
# Columns that the table has only if one of their numbers is not 0.
_SOMETIMES = ("OVER LIMIT", "NEVER")
# The number of decisions in a report, unless the user sets it.
_DECISIONS = 100_000


@click.command(
    epilog=format_examples(
        "muster simulate scenario.yaml",
        "muster simulate scenario.yaml --report out --seed 7",
        "muster simulate scenario.yaml --assert 'p99(wait, queue=prod) < 30m'",
        "muster simulate today.yaml tomorrow.yaml --seeds 20",
        "muster simulate scenario.yaml --sweep nodes.gpu.count=8..16:4",
        "python make_scenario.py | muster simulate -",
    ),
)
@click.argument("scenarios", metavar="SCENARIO...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--report",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a report to this directory: a page with charts, the summary as JSON, and CSV files.",
)
@click.option(
    "--assert",
    "assertions",
    metavar="TEXT",
    multiple=True,
    help="A condition on the result. If it does not hold, the exit code is 1. Can be repeated.",
)
@click.option("--seed", type=int, help="Seed of all random numbers, instead of the seed of the scenario.")
@click.option(
    "--decisions",
    metavar="N",
    type=click.IntRange(0, 10_000_000),
    default=_DECISIONS,
    show_default=True,
    help="Maximum number of decisions in the report. The newest are kept.",
)
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Simulate with N seeds, beginning with the seed of the scenario.",
)
@click.option(
    "--sweep",
    "sweeps",
    metavar="PATH=VALUES",
    multiple=True,
    help="Compare values of a setting: FROM..TO:STEP, or A,B,C. Can be repeated.",
)
@click.option(
    "--engine",
    type=click.Choice(["fast", "full"]),
    default="fast",
    help="fast runs only the decisions of the scheduler and the queues; full runs a whole cluster, which is slow.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format of the summary."
)
def command(
    scenarios: tuple[str, ...],
    report: Path | None,
    assertions: tuple[str, ...],
    seed: int | None,
    seeds: int | None,
    decisions: int,
    sweeps: tuple[str, ...],
    engine: "EngineName",
    output: str,
) -> None:
    """Simulate a scenario of queues, nodes and jobs, and report how long the jobs would wait.

    SCENARIO is a YAML file, a folder that contains one, or - for the standard input. The command compares the variants
    of a scenario, and several scenarios or seeds.

    The exit code is 1 if an assertion fails, and 2 if the scenario cannot be simulated.
    """
    import msgspec

    from muster.cli.actions.comparing import report_comparing
    from muster.cli.terminal.liveline import LiveLine
    from muster.cli.terminal.output import dump, say
    from muster.insight.text import escape_controls
    from muster.runtime.realclock import RealClock
    from muster.simulation.outcome.page import write_page
    from muster.simulation.outcome.progress import ProgressReporter
    from muster.simulation.outcome.report import write_report
    from muster.simulation.runs import list_cases, simulate_all
    from muster.simulation.scenario.logs.shelf import LogShelf
    from muster.simulation.scenario.reading import load_scenario
    from muster.simulation.scenario.source import ScenarioError
    from muster.simulation.scenario.sweeps import SweepError, parse_sweep
    from muster.simulation.simulate import simulate

    if report is not None:
        _make_folder(report)
    live = LiveLine()
    progress = _Interruptible(ProgressReporter(lambda text: live.show("", text), RealClock()))
    shelf = LogShelf(progress.read)
    try:
        loaded = [
            load_scenario(sys.stdin.buffer.read(), "stdin") if one == "-" else load_scenario(one) for one in scenarios
        ]
        cases = list_cases(loaded, [parse_sweep(one) for one in sweeps], seed)
        with _defer_interrupts(progress):
            if len(cases) > 1 or seeds is not None or sweeps:
                if engine != "fast":
                    raise click.UsageError("--engine full plays one scenario with one seed")
                compared = simulate_all(
                    cases,
                    seeds or 1,
                    assertions=assertions,
                    processes=len(os.sched_getaffinity(0)),
                    folder=report,
                    done=progress.count,
                    shelf=shelf,
                )
                live.show("", "")
                sys.exit(report_comparing(compared, len(cases) * (seeds or 1), report, output))
            kept = decisions if report is not None else 0
            outcome = simulate(
                loaded[0],
                assertions=assertions,
                seed=seed,
                progress=progress,
                decisions=kept,
                engine=engine,
                shelf=shelf,
            )
    except KeyboardInterrupt:  # an interrupt before the first simulation
        live.show("", "")
        raise
    except SweepError as error:
        say(f"Error: --sweep: {error}")
        sys.exit(2)
    except ScenarioError as error:
        live.show("", "")
        say(f"Error: {escape_controls(str(error))}")  # it may quote a log
        sys.exit(2)
    live.show("", "")
    click.echo(dump(msgspec.to_builtins(outcome.summary), "json") if output == "json" else make_table(outcome.summary))
    for line in _list_remarks(outcome):
        say(line)
    if report is not None:
        write_report(outcome, report)
        write_page(outcome, report)
        nodes = ", nodes.csv" if outcome.node_changes else ""
        say(f"wrote report.html, summary.json, jobs.csv{nodes}, timeline.csv and decisions.jsonl in {report}")
        if outcome.decided > len(outcome.decisions) > 0:
            say(f"decisions.jsonl has the newest {len(outcome.decisions):,} of {outcome.decided:,}: --decisions N")
    sys.exit(130 if outcome.stopped else int(not outcome.holds))


def _make_folder(folder: Path) -> None:
    """Create the folder of the report, and try to write there, before the simulation, which may take long.

    Raises `click.BadParameter` if that fails.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise click.BadParameter(f"{folder}: {error.strerror}", param_hint="--report") from None


class _Interruptible:
    """The display of a simulation's progress on a terminal, which also stops the simulation on an interrupt."""

    def __init__(self, reporter: "ProgressReporter") -> None:
        self._reporter = reporter
        self._interrupted = False

    def count(self, done: int, total: int) -> None:
        """Show how many of several simulations are done. Raises `KeyboardInterrupt` after an interrupt."""
        self._stop_if_interrupted()
        self._reporter.count(done, total)

    def read(self, file: Path, jobs: int) -> None:
        """Show how many jobs of a log are read. Raises `KeyboardInterrupt` after an interrupt."""
        self._stop_if_interrupted()
        self._reporter.read(file, jobs)

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Let the simulation stop after the current moment. Another interrupt kills the process at once."""
        self._interrupted = True
        signal.signal(number, signal.SIG_DFL)

    def __call__(self, record: "SimulationRecord") -> None:
        self._stop_if_interrupted()
        self._reporter(record)

    def _stop_if_interrupted(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt


@contextmanager
def _defer_interrupts(progress: _Interruptible) -> Iterator[None]:
    """Let interrupts stop the simulation only between two moments, inside the `with` block.

    Within a moment, the record of the jobs is incomplete.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # the shell lets a background job ignore interrupts
        yield
        return
    signal.signal(signal.SIGINT, progress.interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def make_table(summary: "Summary") -> str:
    """Return the tables of the queues and of their quotas, and the lines about fairness and forecasts below them."""
    from muster.insight.text import format_mean, format_quantity, format_table

    counts = [name for name, count in _count_jobs(summary.total).items() if count or name not in _SOMETIMES]
    columns = ("QUEUE", *counts, "WAIT MEAN", "P50", "P90", "P99", "SLOWDOWN", "EVICTED", "LOST")
    faults = ("INTERRUPTED", "LOST BY NODES") if summary.total.interruptions else ()
    groups = [(name or "(none)", group) for name, group in summary.queues.items()]
    if len(groups) > 1:
        groups.append(("all", summary.total))
    rows = [_make_row(name, group, counts) for name, group in groups]
    rows = [row[: len(columns) + len(faults)] for row in rows]
    tables = [format_table((*columns, *faults), rows)]
    if summary.use:
        header = ("QUEUE", "FLAVOR", "RESOURCE", "MEAN USE", "PEAK")
        uses = [
            (
                one.queue,
                one.flavor,
                one.resource,
                format_mean(one.resource, one.mean),
                format_quantity(one.resource, one.peak),
            )
            for one in summary.use
        ]
        tables.append(format_table(header, uses))
    fairness = "" if summary.fairness is None or len(rows) < 2 else f", fairness {summary.fairness:.2f} (Jain)"
    last = f"{format_span(summary.seconds)} simulated, makespan {format_span(summary.makespan)}{fairness}"
    tables.append("\n".join([last, *_describe_forecasts(summary)]))
    return "\n\n".join(tables)


def _describe_forecasts(summary: "Summary") -> list[str]:
    total = summary.total
    if total.forecast is None:
        return []
    half, most = f"{total.forecast.p50:.0%}", f"{total.forecast.p90:.0%}"
    count = f"{total.forecasts:,} of {total.waited:,} jobs that waited"
    return [
        f"what muster why would have forecast for {count}: half within {half} of the wait, nine of ten within {most}",
        "(the table has the waits themselves, which no forecast changes)",
    ]


def _count_jobs(group: "GroupSummary") -> dict[str, int]:
    """Return the numbers of jobs of a group, by column of the table."""
    return {
        "JOBS": group.submitted,
        "ENDED": group.ended,
        "OVER LIMIT": group.over_limit,
        "WAITING": group.waiting - group.never,
        "NEVER": group.never,
    }


def _make_row(name: str, group: "GroupSummary", counts: Sequence[str]) -> tuple[str, ...]:
    """Return the cells of a queue's row: counts, waits, slowdown, evictions and interruptions.

    counts: the columns of numbers of jobs that the table has.
    """
    wait = group.wait
    waits = ("-",) * 4 if wait is None else map(format_span, (wait.mean, wait.p50, wait.p90, wait.p99))
    slowdown = "-" if group.slowdown is None else f"{group.slowdown.mean:.1f}"
    numbers = _count_jobs(group)
    evicted = str(group.evictions), format_span(group.lost)
    interrupted = str(group.interruptions), format_span(group.interrupted)
    return (name, *(str(numbers[one]) for one in counts), *waits, slowdown, *evicted, *interrupted)


def _list_remarks(outcome: "Report") -> list[str]:
    """Return remarks that the table does not contain: jobs that could never run, cut-offs, and the assertions."""
    from muster.insight.text import escape_controls
    from muster.simulation.outcome.verdicts import format_verdict

    never = [one for one in outcome.waiting if one.never]
    names = (
        f"{escape_controls(one.name)} could never run: {one.why}" for one in never[:_NAMED]
    )  # a log may say anything
    lines = [*outcome.remarks, *names]
    if len(never) > _NAMED:
        lines.append(f"{len(never) - _NAMED:,} more jobs could never run")
    if outcome.stopped:
        lines.append(f"stopped after {format_span(outcome.summary.seconds)} of virtual time: the report ends there")
    return [*lines, *map(format_verdict, outcome.verdicts)]
