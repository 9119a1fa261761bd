"""Draw a map of nodes as small cells, one per node, so that thousands fit on a page. Pure.

The colour of a cell shows how much of the node is requested, or the job on the node. A sign in the cell and its tooltip
show the same without colour.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from muster.charts.markup import Markup, make_element
from muster.charts.plot import COLORS
from muster.dashboard.visits import make_address
from muster.insight.gpus import GpuRow
from muster.insight.nodes import NodeGroup, NodeRow
from muster.insight.reader.listing.memo import Memo

BY_USE, BY_JOB = "use", "job"
CELLS = "node cells"  # the key in a memo
_STEPS = 5


class Coloring(Struct, frozen=True):
    """The meaning of the colours in the map of nodes.

    by: BY_USE, BY_JOB, or the resource whose requested part the colour shows.
    jobs: the colour of each job that has one.
    """

    by: str
    jobs: Mapping[str, str] = {}

    def find_job_color(self, row: NodeRow) -> str:
        """Return the colour of the job with the most pods on a node; "" if there is no job, or it has no colour."""
        return self.jobs.get(row.jobs[0], "") if row.jobs else ""


def choose_colors(rows: Iterable[NodeRow]) -> dict[str, str]:
    """Return a colour for each of the jobs that dominate the most nodes."""
    counts = Counter(row.jobs[0] for row in rows if row.jobs)
    return {job: str(number) for number, (job, _) in enumerate(counts.most_common(COLORS))}


def draw_group(group: NodeGroup, coloring: Coloring, memo: Memo) -> Markup:
    """Draw a group's nodes as cells.

    memo: caches the cells of earlier drawings.
    """
    return Markup("".join(_recall_cell(row, coloring, memo) for row in group.rows))


def _recall_cell(row: NodeRow, coloring: Coloring, memo: Memo) -> Markup:
    inputs = row, coloring.by, coloring.find_job_color(row)
    return memo.recall(CELLS, row.name, inputs, lambda: _draw_cell(row, coloring))


def _draw_cell(row: NodeRow, coloring: Coloring) -> Markup:
    part = find_part(row, coloring.by)
    attributes = {
        "class": _choose_class(row, coloring, part),
        "href": make_address("nodes", row.name),
        "tabindex": "-1",
        "title": _describe_cell(row, coloring.by, part),
    }
    return make_element("a", attributes, _choose_sign(row))


def _choose_class(row: NodeRow, coloring: Coloring, part: float) -> str:
    if row.health.startswith("NotReady"):
        return "lost"
    if row.jobs is None:
        return "unknown"
    if coloring.by == BY_JOB:
        return f"k{coloring.find_job_color(row) or 'rest'}" if row.jobs else "free"
    return f"b{min(_STEPS - 1, int(part * _STEPS))}" if part > 0 else "free"


def _choose_sign(row: NodeRow) -> str:
    if row.health == "Ready":
        return ""
    return "×" if row.health.startswith("NotReady") else "–"


def find_part(row: NodeRow, by: str) -> float:
    """Return the requested part of a node's resource, from 0 to 1; for BY_USE, of its scarcest resource.

    Returns 0 if the node lacks the resource.
    """
    if by == BY_USE:
        return row.load
    return next((one.share for one in row.amounts if one.resource == by), 0.0)


def _describe_cell(row: NodeRow, by: str, part: float) -> str:
    """Return the tooltip of a node's cell: its name, its health, and its job or the requested part.

    by: what the cells show.
    part: the requested part of the node, from 0 to 1.
    """
    health = "" if row.health == "Ready" else f", {row.health}"
    if row.jobs is None:
        return f"{row.name}{health}"
    if by == BY_JOB:
        more = f" and {len(row.jobs) - 1} more" if len(row.jobs) > 1 else ""
        return f"{row.name}{health}: {row.jobs[0]}{more}" if row.jobs else f"{row.name}{health}: free"
    return f"{row.name}{health}: {part:.0%}"


def draw_gpus(gpus: Sequence[GpuRow]) -> Markup:
    """Draw the GPUs of a node as one cell per GPU that shows its state."""
    states = Counter(gpu.state for gpu in gpus)
    label = ", ".join(f"{count} {state.lower()}" for state, count in states.items())
    cells = (
        make_element(
            "i", {"class": f"gpu {gpu.state.lower()}", "title": describe_gpu(gpu)}, _GPU_SIGNS.get(gpu.state, "")
        )
        for gpu in gpus
    )
    return make_element("span", {"class": "gpus", "role": "img", "aria-label": f"GPUs: {label}"}, *cells)


_GPU_SIGNS = {"Ill": "×", "Used": "▪"}


def describe_gpu(gpu: GpuRow) -> str:
    """Return the tooltip of a GPU: its name, model and state, and the job that uses it."""
    name = f"GPU {gpu.gpu}" + (f" ({gpu.model})" if gpu.model else "")
    return f"{name}: {gpu.state.lower()}" + (f" by {gpu.job}" if gpu.job and gpu.state == "Used" else "")
