"""Draw the use of a queue over time, stacked by user. Pure."""

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from muster.charts.markup import Markup
from muster.charts.plot import Series, color_of, draw_legend, draw_stack
from muster.charts.scales import Tick, format_span, format_value
from muster.insight.history.use import OTHERS, UNKNOWN, UseSteps
from muster.insight.text import format_owners

_GIBIBYTE = 1 << 30


class Span(Struct, frozen=True):
    """The time range of a chart, which ends now.

    steps: the number of steps in the chart.
    marks: the number of parts between labelled ticks.
    """

    title: str
    length: timedelta
    steps: int
    marks: int


SPANS: Mapping[str, Span] = {
    "hour": Span("last hour", timedelta(hours=1), 60, 6),
    "day": Span("last day", timedelta(days=1), 96, 8),
    "week": Span("last week", timedelta(days=7), 84, 7),
}


class UseFigure(Struct, frozen=True):
    """A chart of the use over time, with its legend.

    is_empty: whether nothing was used in that time.
    """

    chart: Markup
    legend: Markup
    is_empty: bool


def draw_use(steps: UseSteps, span: Span, resource: str, limit: int | None) -> UseFigure:
    """Return a chart of the use of a resource over time, stacked by owner.

    limit: the quota, in units of `quantity.parse_amount`; 0 or None to draw no line.
    """
    divisor = _find_divisor(resource)
    people = format_owners(layer.owner for layer in steps.layers if layer.owner not in (OTHERS, UNKNOWN))
    layers = [
        Series(
            people.get(layer.owner, layer.owner),
            [value / (divisor if resource != "cpu" else 1) for value in layer.values],
            "rest" if layer.owner == OTHERS else color_of(number),
        )
        for number, layer in enumerate(steps.layers)
    ]
    count = span.steps
    lines = [Series("quota", [limit / divisor] * count, "limit")] if limit else []
    ticks = [
        Tick(number / span.marks, _name_tick(span, number), minor=bool(number % 2)) for number in range(span.marks + 1)
    ]
    unit = _name_unit(resource)
    label = (
        f"Use of {resource} in the {span.title}, by user, on average of each {format_span(steps.step.total_seconds())}"
        f"{f', in {unit}' * bool(unit)}: {'; '.join([*map(_describe_layer, layers), *map(_describe_line, lines)])}"
    )
    chart = draw_stack([*map(float, range(count + 1))], layers, lines, ticks, label, unit)
    legend = draw_legend([*((one.name, one.color) for one in layers), *((one.name, one.color) for one in lines)])
    return UseFigure(chart, legend, is_empty=not layers)


def _describe_layer(layer: Series) -> str:
    """Return a user's part of the chart as text, for viewers who cannot see the chart."""
    return f"{layer.name} at most {format_value(max(layer.values))}, {format_value(layer.values[-1])} at the end"


def _describe_line(line: Series) -> str:
    return f"{line.name} {format_value(line.values[-1])}"


def _find_divisor(resource: str) -> int:
    """Return the divisor that converts an amount in units of `quantity.parse_amount` to the unit of the chart."""
    return {"cpu": 1000, "memory": _GIBIBYTE, "ephemeral-storage": _GIBIBYTE}.get(resource, 1)


def _name_unit(resource: str) -> str:
    return {"cpu": "CPUs", "memory": "GiB", "ephemeral-storage": "GiB"}.get(resource, "")


def _name_tick(span: Span, number: int) -> str:
    ago = span.length * (1 - number / span.marks)
    return f"{format_span(ago.total_seconds())} ago" if number < span.marks else "now"
