"""Draw how much of quotas and nodes was used over time."""

from collections.abc import Sequence

from muster.charts.page import Figure, Section
from muster.charts.plot import Series, draw_legend, draw_stack
from muster.charts.scales import list_time_ticks
from muster.simulation.outcome.figures.palette import Palette
from muster.simulation.outcome.timeline import QuotaSeries, Timeline, scale_amount

# The maximum number of resources and queues; the figure tells that less important ones are left out.
_MOST_RESOURCES = 4
_MOST_QUEUES = 6
_HIDDEN = ("pods", "ephemeral-storage")
_UNITS = {"cpu": "CPUs", "memory": "bytes", "nvidia.com/gpu": "GPUs"}


def draw_use(timeline: Timeline, palette: Palette) -> Section:
    """Return the section about use: who uses each resource, and which part of each queue's use was within its quota."""
    resources = list_resources(timeline)
    figures = [_draw_resource(timeline, palette, one) for one in resources]
    figures += [figure for one in resources[:2] for figure in _draw_queues(timeline, palette, one)]
    return Section("use", "Use of quota and nodes", figures)


def list_resources(timeline: Timeline) -> list[str]:
    """Return the resources to draw, up to a limit; the resources with the highest used share of capacity come first."""
    shares: dict[str, float] = {}
    for (_, resource), series in timeline.demand.items():
        if resource not in _HIDDEN:
            total = sum(timeline.capacity.get(resource, ())) or sum(
                sum(quota.nominal) for (*_, one), quota in timeline.quotas.items() if one == resource
            )
            shares[resource] = shares.get(resource, 0.0) + (sum(series) / total if total else 0.0)
    return sorted(shares, key=lambda one: (-shares[one], one))[:_MOST_RESOURCES]


def _draw_resource(timeline: Timeline, palette: Palette, resource: str) -> Figure:
    length = len(timeline.edges) - 1
    demand = ((queue, _scale_series(resource, one)) for (queue, of), one in timeline.demand.items() if of == resource)
    layers = palette.stack(demand, length)
    lines = []
    if nominal := [quota.nominal for (*_, one), quota in timeline.quotas.items() if one == resource]:
        lines.append(Series("all quotas", _scale_series(resource, add_series(nominal, length)), "limit"))
    if resource in timeline.capacity:
        lines.append(Series("all nodes", _scale_series(resource, timeline.capacity[resource]), "nodes"))
    ticks = list_time_ticks(timeline.edges[-1])
    title = f"{resource} by queue"
    return Figure(
        title,
        "What running jobs ask for. Room between the stack and the lines was idle.",
        draw_stack(timeline.edges, layers, lines, ticks, f"{title} over time", _UNITS.get(resource, "")),
        draw_legend((one.name, one.color) for one in (*layers, *lines)),
        wide=True,
    )


def _draw_queues(timeline: Timeline, palette: Palette, resource: str) -> list[Figure]:
    length = len(timeline.edges) - 1
    figures = []
    having = [queue for queue in palette.queues if _find_quotas(timeline, queue, resource)]
    for queue in having[:_MOST_QUEUES]:
        quotas = _find_quotas(timeline, queue, resource)
        nominal, used, borrowed, lost = (
            _scale_series(resource, add_series([getattr(one, field) for one in quotas], length))
            for field in ("nominal", "used", "borrowed", "lost")
        )
        layers = split_use(used, borrowed, lost)
        line = Series("entitlement", nominal, "limit")
        title = f"{queue}: {resource} held"
        body = draw_stack(timeline.edges, layers, [line], list_time_ticks(timeline.edges[-1]), f"{title} over time")
        reading = (
            "Quota that the queue holds, also of jobs that wait for nodes. "
            "Lost: an eviction or interruption undid this use later."
        )
        figures.append(Figure(title, reading, body, draw_legend((one.name, one.color) for one in (*layers, line))))
    return figures


def _find_quotas(timeline: Timeline, queue: str, resource: str) -> list[QuotaSeries]:
    return [quota for (name, _, of), quota in timeline.quotas.items() if (name, of) == (queue, resource)]


def split_use(used: Sequence[float], borrowed: Sequence[float], lost: Sequence[float]) -> list[Series]:
    """Return the use as three layers that add up to it: within the entitlement, borrowed and lost.

    Lost use is subtracted from borrowed use first.
    """
    parts = []
    for all_of_it, above, vain in zip(used, borrowed, lost, strict=True):
        vain = min(vain, all_of_it)
        kept = max(above - vain, 0.0)
        parts.append((max(all_of_it - vain - kept, 0.0), kept, vain))
    names = (("within its entitlement", "0"), ("borrowed", "1"), ("lost", "lost"))
    columns = zip(*parts, strict=True) if parts else ((), (), ())
    return [Series(name, values, color) for (name, color), values in zip(names, columns, strict=True)]


def add_series(series: Sequence[Sequence[float]], length: int) -> list[float]:
    """Return the sum of series, bin by bin; `length` zeros if there are no series."""
    return [sum(one) for one in zip(*series, strict=True)] if series else [0.0] * length


def _scale_series(resource: str, series: Sequence[float]) -> list[float]:
    return [scale_amount(resource, one) for one in series]
