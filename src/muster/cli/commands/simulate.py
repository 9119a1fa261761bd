"""`muster simulate`: play a scenario in virtual time, and report what became of its jobs."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from muster.cli.names.examples import examples

if TYPE_CHECKING:
    from muster.cli.terminal.liveline import LiveLine
    from muster.runtime.clock import Clock
    from muster.simulation.outcome.assertions import Verdict
    from muster.simulation.outcome.record import Record
    from muster.simulation.outcome.report import Report
    from muster.simulation.outcome.summary import GroupSummary, Summary
    from muster.simulation.simulate import EngineName

# How often the progress is shown, in seconds.
_SHOW_SECONDS = 0.5
# How many jobs that could never run are named.
_NAMED = 5


@click.command(
    epilog=examples(
        "muster simulate scenario.yaml",
        "muster simulate scenario.yaml --report out --seed 7",
        "muster simulate scenario.yaml --assert 'p99(wait, queue=prod) < 30m'",
    ),
)
@click.argument("scenario", metavar="SCENARIO", type=click.Path())
@click.option(
    "--report",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write summary, jobs and timeline there.",
)
@click.option("--assert", "assertions", metavar="TEXT", multiple=True, help="Fail unless this holds of the outcome.")
@click.option("--seed", type=int, help="The source of everything that is drawn, instead of the scenario's.")
@click.option(
    "--engine",
    type=click.Choice(["fast", "full"]),
    default="fast",
    help="Decide by the decisions alone, or play a whole cluster, which is slow.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The form of the summary.")
def command(
    scenario: str,
    report: Path | None,
    assertions: tuple[str, ...],
    seed: int | None,
    engine: "EngineName",
    output: str,
) -> None:
    """Play a scenario, a YAML file or a folder with one, and say how long its jobs would wait.

    The exit code is 1 if an assertion fails, and 2 if the scenario cannot be simulated.
    """
    import msgspec

    from muster.cli.terminal.liveline import LiveLine
    from muster.cli.terminal.output import dump, say
    from muster.runtime.clock import RealClock
    from muster.simulation.outcome.report import write_report
    from muster.simulation.scenario.reading import ScenarioError
    from muster.simulation.simulate import simulate

    live = LiveLine()
    progress = _Progress(live, RealClock())
    try:
        with _deferring_interrupts(progress):
            outcome = simulate(scenario, assertions=assertions, seed=seed, progress=progress, engine=engine)
    except ScenarioError as error:
        live.show("", "")
        say(f"Error: {error}")
        sys.exit(2)
    live.show("", "")
    click.echo(dump(msgspec.to_builtins(outcome.summary), "json") if output == "json" else _make_table(outcome.summary))
    for line in _list_remarks(outcome):
        say(line)
    if report is not None:
        write_report(outcome, report)
        say(f"wrote summary.json, jobs.csv and timeline.csv in {report}")
    sys.exit(130 if outcome.stopped else int(not outcome.holds))


class _Progress:
    """Shows how far a simulation is, a few times a second, and stops it between two moments."""

    def __init__(self, live: "LiveLine", clock: "Clock") -> None:
        self._live = live
        self._clock = clock
        self._began = self._shown = clock.monotonic()
        self._moments = 0
        self._interrupted = False

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Stop the simulation after the present moment; another interrupt ends the process at once."""
        self._interrupted = True
        signal.signal(number, signal.SIG_DFL)

    def __call__(self, record: "Record") -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._moments += 1
        now = self._clock.monotonic()
        if now - self._shown >= _SHOW_SECONDS:
            self._shown = now
            rate = self._moments / (now - self._began)
            self._live.show("", f"{_format_seconds(record.now)} simulated, {len(record):,} jobs, {rate:,.0f} moments/s")


@contextmanager
def _deferring_interrupts(progress: _Progress) -> Iterator[None]:
    """Let an interrupt wait for the end of a moment: within it, the record of the jobs is incomplete."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # the shell lets a background job ignore interrupts
        yield
        return
    signal.signal(signal.SIGINT, progress.interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _make_table(summary: "Summary") -> str:
    from muster.insight.text import format_quantity, format_table

    columns = ("QUEUE", "JOBS", "ENDED", "WAITING", "WAIT MEAN", "P50", "P90", "P99", "SLOWDOWN", "EVICTED", "LOST")
    rows = [_make_row(name or "(none)", group) for name, group in summary.queues.items()]
    tables = [format_table(columns, [*rows, _make_row("all", summary.total)] if len(rows) > 1 else rows)]
    if summary.use:
        header = ("QUEUE", "FLAVOR", "RESOURCE", "MEAN USE", "PEAK")
        uses = [
            (
                one.queue,
                one.flavor,
                one.resource,
                *(format_quantity(one.resource, n) for n in (one.mean, one.peak)),
            )
            for one in summary.use
        ]
        tables.append(format_table(header, uses))
    fairness = "" if summary.fairness is None or len(rows) < 2 else f", fairness {summary.fairness:.2f} (Jain)"
    tables.append(
        f"{_format_seconds(summary.seconds)} simulated, makespan {_format_seconds(summary.makespan)}{fairness}"
    )
    return "\n\n".join(tables)


def _make_row(name: str, group: "GroupSummary") -> tuple[str, ...]:
    wait = group.wait
    waits = ("-",) * 4 if wait is None else map(_format_seconds, (wait.mean, wait.p50, wait.p90, wait.p99))
    slowdown = "-" if group.slowdown is None else f"{group.slowdown.mean:.1f}"
    counts = (group.submitted, group.ended, group.waiting)
    return (name, *map(str, counts), *waits, slowdown, str(group.evictions), _format_seconds(group.lost))


def _list_remarks(outcome: "Report") -> list[str]:
    """Return what the table does not say: jobs that could never run, what was cut short, and the assertions."""
    never = [one for one in outcome.waiting if one.never]
    lines = [f"{one.name} could never run: {one.why}" for one in never[:_NAMED]]
    if len(never) > _NAMED:
        lines.append(f"{len(never) - _NAMED:,} more jobs could never run")
    if outcome.stopped:
        lines.append(f"stopped after {_format_seconds(outcome.summary.seconds)} of virtual time: the report ends there")
    return [*lines, *map(_format_verdict, outcome.verdicts)]


def _format_verdict(verdict: "Verdict") -> str:
    if verdict.value is None:
        value = "no such job"
    else:
        value = _format_seconds(verdict.value) if verdict.assertion.is_of_time else f"{verdict.value:g}"
    return f"{'holds' if verdict.holds else 'FAILS'}: {verdict.assertion.text} (it is {value})"


def _format_seconds(seconds: float) -> str:
    """Return a time span in its two largest units: `3d4h`, `2m5s`, `0.3s`."""
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
    return "".join(parts[:2])
