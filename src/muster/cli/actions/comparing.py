"""Print the differences between the variants of a scenario, and write the comparison as a file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from muster.charts.scales import format_span
from muster.cli.terminal.output import dump, say
from muster.insight.text import format_mean, format_table
from muster.simulation.outcome.comparison import (
    SECONDS,
    Difference,
    Figure,
    describe_never,
    group_failures,
    is_same_for_all_seeds,
    list_changes,
    list_figures,
    name_seeds,
)
from muster.simulation.outcome.comparisonpage import render_comparison
from muster.simulation.outcome.student import MeanEstimate
from muster.simulation.outcome.verdicts import format_verdict
from muster.simulation.runs import Comparing, name_folder

# The maximum number of rows in the table of differences. The file and `-o json` have all rows.
_MOST_ROWS = 60
# Numbers from this one on are shown as whole numbers.
_WHOLE_FROM = 1000
_NOISE = {True: "yes", False: "no", None: "?"}
# Counts of jobs that the table shows only if they are not 0.
_SOMETIMES = ("over limit", "never")
_COLUMNS = ("wait mean", "wait p99", "slowdown", "ended", "over limit", "waiting", "never", "evictions")


def report_comparing(outcome: Comparing, total: int, folder: Path | None, output: str) -> int:
    """Print a comparison of simulations, and write it into a folder if there is one; return the exit code.

    The code is not 0 if an assertion fails or the user stopped the simulations.

    total: how many simulations were planned.
    folder: where to write the comparison; None not to write it.
    output: "json", or "" for tables.
    """
    if outcome.stopped and not outcome.runs:
        say(f"stopped before the first of {total} simulations was done: there is nothing to compare")
        return 130
    document = {"comparison": outcome.comparison, "runs": outcome.runs}
    click.echo(dump(msgspec.to_builtins(document), "json") if output == "json" else _make_tables(outcome))
    for line in _list_remarks(outcome, total):
        say(line)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        page = render_comparison(outcome.comparison, outcome.runs, name_folder)
        (folder / "report.html").write_text(page, encoding="utf-8")
        say(f"wrote report.html and summary.json in {folder}, and the report of each simulation in a folder there")
    return 130 if outcome.stopped else int(not outcome.holds)


def _make_tables(outcome: Comparing) -> str:
    figures = [dict(list_figures(run.summary)) for run in outcome.runs]
    columns = [
        name for name in _COLUMNS if name not in _SOMETIMES or any(run[Figure(None, name, "")] for run in figures)
    ]
    header = ("VARIANT", "SEEDS", *(name.upper() for name in columns))
    tables = [format_table(header, list(_list_variants(outcome, columns)))]
    rows = [_make_row(one) for one in list_changes(outcome.comparison)]
    if rows:
        header = ("VARIANT", "QUEUE", "FIGURE", "BEFORE", "AFTER", "CHANGE", "95% INTERVAL", "BEYOND NOISE")
        tables.append(format_table(header, rows[:_MOST_ROWS]))
    if len(rows) > _MOST_ROWS:
        tables.append(f"{len(rows) - _MOST_ROWS:,} more differences: -o json has them all")
    return "\n\n".join(tables)


def _list_variants(outcome: Comparing, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for variant in outcome.comparison.variants:
        runs = [dict(list_figures(run.summary)) for run in outcome.runs if run.variant == variant]
        cells = []
        for name in columns:
            figure = Figure(None, name, SECONDS if name.startswith("wait ") else "")
            values = [run[figure] for run in runs if figure in run]
            cells.append(_format_estimate(MeanEstimate.of(values), figure) if values else "-")
        yield (variant, str(len(runs)), *cells)


def _format_estimate(estimate: MeanEstimate, figure: Figure) -> str:
    mean = _format_value(estimate.mean, figure)
    return mean if estimate.high is None else f"{mean} ±{_format_value(estimate.high - estimate.mean, figure)}"


def _make_row(difference: Difference) -> tuple[str, ...]:
    change, figure = difference.change, difference.figure
    interval = (
        "-"
        if change.low is None or change.high is None
        else f"{_format_difference(change.low, figure)} to {_format_difference(change.high, figure)}"
    )
    queue = "all" if figure.queue is None else figure.queue or "(none)"
    values = (
        _format_value(difference.before.mean, figure),
        _format_value(difference.after.mean, figure),
        _format_difference(change.mean, figure),
    )
    return (difference.variant, queue, figure.name, *values, interval, _NOISE[difference.beyond_noise])


def _format_difference(value: float, figure: Figure) -> str:
    return ("-" if value < 0 else "+") + _format_value(abs(value), figure)


def _format_value(value: float, figure: Figure) -> str:
    if figure.unit == SECONDS:
        return format_span(value)
    if figure.unit:
        return format_mean(figure.unit, value)
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.4g}"


def _list_remarks(outcome: Comparing, total: int) -> Iterator[str]:
    """Yield remarks that the tables do not contain.

    They say whether the comparison was stopped early, whether the seeds show no noise, which jobs could never run, and
    which assertions do not hold. The remarks of the simulations are among them, each once.

    total: how many simulations were planned.
    """
    if outcome.stopped:
        yield f"stopped: {len(outcome.runs)} of {total} simulations are done, and only these count"
    if len(outcome.comparison.variants) > 1 and len(outcome.comparison.seeds) < 2:
        yield "with one seed, nothing can be said of noise: --seeds 20 tells which differences are beyond it"
    if outcome.runs and is_same_for_all_seeds(outcome.runs):
        yield "all seeds have the same outcome, as if nothing were drawn: one seed does, and shows no noise"
    yield from dict.fromkeys(remark for run in outcome.runs for remark in run.remarks)
    yield from describe_never(outcome.runs)
    for (variant, _), failures in group_failures(outcome.runs).items():
        yield f"{variant}, {name_seeds(list(failures))}: {format_verdict(next(iter(failures.values())))}"
    verdicts = [verdict for run in outcome.runs for verdict in run.verdicts]
    if verdicts and outcome.holds:
        yield f"all assertions hold, in all {len(outcome.runs)} simulations"
