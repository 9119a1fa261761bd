"""Render `report.html`: the outcome of a simulation as one page.

A section is a function of the report. New sections are added to `_draw_sections`.
"""

from collections.abc import Iterator
from pathlib import Path

from muster.charts.markup import Markup, make_element
from muster.charts.page import Section, Tile, render_page
from muster.charts.scales import format_span
from muster.simulation.outcome.figures.fairness import draw_fairness
from muster.simulation.outcome.figures.forecasts import draw_forecasts
from muster.simulation.outcome.figures.losses import draw_losses
from muster.simulation.outcome.figures.nodes import draw_nodes
from muster.simulation.outcome.figures.palette import Palette
from muster.simulation.outcome.figures.use import draw_use, list_resources
from muster.simulation.outcome.figures.waits import draw_waiting, draw_waits
from muster.simulation.outcome.report import Report
from muster.simulation.outcome.verdicts import describe_measure

# The maximum number of named jobs that could never run.
_NAMED = 5


def render_report(report: Report) -> str:
    """Return the HTML page for a report."""
    title = f"Simulation of {report.scenario}"
    return render_page(title, _list_remarks(report), _list_tiles(report), list(_draw_sections(report)))


def write_page(report: Report, folder: Path) -> None:
    """Write `report.html` into an existing folder."""
    (folder / "report.html").write_text(render_report(report), encoding="utf-8")


def _draw_sections(report: Report) -> Iterator[Section]:
    timeline = report.timeline
    if not report.jobs or len(timeline.edges) < 2:
        return
    palette = Palette.of(
        {queue: sum(jobs.pods_running) + sum(jobs.pods_waiting) for queue, jobs in timeline.jobs.items()}
    )
    yield draw_use(timeline, palette)
    never, count = {one.name for one in report.waiting if one.never}, report.summary.total.never
    yield draw_waiting(timeline, palette, count)
    if could_run := [job for job in report.jobs if job.started is not None or job.name not in never]:
        yield draw_waits(could_run, palette, count)
    for section in (
        draw_forecasts(report.jobs, palette),
        draw_fairness(timeline, palette),
        draw_losses(timeline, palette),
        draw_nodes(report, palette),
    ):
        if section is not None:
            yield section


def _list_tiles(report: Report) -> Iterator[Tile]:
    summary, total = report.summary, report.summary.total
    never = f", {total.never:,} could never run" if total.never else ""
    over = f" ({total.over_limit:,} at their time limit)" if total.over_limit else ""
    waits = f"{total.ended:,} ended{over}, {total.waiting - total.never:,} still wait{never}"
    yield Tile("Jobs", f"{total.submitted:,}", waits)
    if total.wait is not None:
        yield Tile("Mean wait", format_span(total.wait.mean), f"median {format_span(total.wait.p50)}")
        yield Tile("p99 of waits", format_span(total.wait.p99), f"longest {format_span(total.wait.longest)}")
    if total.slowdown is not None:
        yield Tile("Mean slowdown", f"{total.slowdown.mean:.1f}", "bounded at 10 s of run time")
    yield from _list_utilisation(report)
    yield Tile("Makespan", format_span(summary.makespan), f"{format_span(summary.seconds)} simulated")
    yield Tile("Evictions", f"{total.evictions:,}", f"{format_span(total.lost)} of pods lost")
    if summary.fairness is not None and len(summary.queues) > 1:
        yield Tile("Fairness", f"{summary.fairness:.2f}", "Jain's index of slowdowns of queues")


def _list_utilisation(report: Report) -> Iterator[Tile]:
    timeline = report.timeline
    widths = [end - start for start, end in zip(timeline.edges, timeline.edges[1:], strict=False)]
    for resource in list_resources(timeline)[:2]:
        capacity = timeline.capacity.get(resource)
        of = "of all nodes" if capacity else "of all quotas"
        has = [capacity] if capacity else [q.nominal for (*_, one), q in timeline.quotas.items() if one == resource]
        used = [series for (_, one), series in timeline.demand.items() if one == resource]
        total = sum(value * width for series in has for value, width in zip(series, widths, strict=True))
        busy = sum(value * width for series in used for value, width in zip(series, widths, strict=True))
        if total:
            yield Tile(f"{resource} used", f"{busy / total:.0%}", of)


def _list_remarks(report: Report) -> Iterator[Markup]:
    for verdict in report.verdicts:
        text = f"{verdict.assertion.text}: {'holds' if verdict.holds else 'fails'}, {describe_measure(verdict)}"
        yield make_element("p", {"class": "good" if verdict.holds else "bad"}, text)
    if report.stopped:
        yield make_element(
            "p", {"class": "bad"}, f"Stopped after {format_span(report.summary.seconds)} of virtual time."
        )
    for text in report.remarks:
        yield make_element("p", {}, text)
    never = [one for one in report.waiting if one.never]
    for one in never[:_NAMED]:
        yield make_element("p", {"class": "bad"}, f"{one.name} could never run: {one.why}")
    if len(never) > _NAMED:
        yield make_element("p", {"class": "bad"}, f"{len(never) - _NAMED:,} more jobs could never run.")
