"""The cells of the map of nodes."""

import pytest

from muster.dashboard.nodecells import BY_JOB, BY_USE, Coloring, choose_colors, draw_gpus, draw_group
from muster.insight.gpus import GpuRow
from muster.insight.nodes import NodeAmount, NodeGroup, NodeRow
from muster.insight.reader.listing.memo import Memo


def row(name: str, used: int | None = 0, *jobs: str, health: str = "Ready") -> NodeRow:
    amounts = (NodeAmount("cpu", used, 8), NodeAmount("memory", 1, 8), NodeAmount("pods", 8, 8))
    return NodeRow(name, health, {}, amounts, None if used is None else jobs)


def cell(one: NodeRow, coloring: Coloring) -> str:
    return draw_group(NodeGroup("g", (one,)), coloring, Memo())


@pytest.mark.parametrize(
    ("one", "by", "wanted"),
    [
        (row("n", 8), BY_USE, '<a class="b4" href="/ui/nodes/n" tabindex="-1" title="n: 100%"></a>'),
        (row("n", 1), BY_USE, '<a class="b0" href="/ui/nodes/n" tabindex="-1" title="n: 12%"></a>'),
        (row("n", 0), "cpu", '<a class="free" href="/ui/nodes/n" tabindex="-1" title="n: 0%"></a>'),
        (row("n", None), BY_USE, '<a class="unknown" href="/ui/nodes/n" tabindex="-1" title="n"></a>'),
        (row("n", 8), "gone", '<a class="free" href="/ui/nodes/n" tabindex="-1" title="n: 0%"></a>'),
        (
            row("n", 8, health="NotReady"),
            BY_USE,
            '<a class="lost" href="/ui/nodes/n" tabindex="-1" title="n, NotReady: 100%">×</a>',
        ),
        (
            row("n", 8, health="Ready,Cordoned"),
            BY_USE,
            '<a class="b4" href="/ui/nodes/n" tabindex="-1" title="n, Ready,Cordoned: 100%">–</a>',
        ),
        (
            row('"><b>', 8),
            BY_USE,
            '<a class="b4" href="/ui/nodes/%22%3E%3Cb%3E" tabindex="-1" title="&quot;&gt;&lt;b&gt;: 100%"></a>',
        ),
    ],
)
def test_a_cell_says_its_use(one: NodeRow, by: str, wanted: str) -> None:
    assert cell(one, Coloring(by)) == wanted


def test_jobs_have_colours_those_on_most_nodes_first() -> None:
    rows = [row("a", 1, "x/one"), row("b", 1, "x/two"), row("c", 1, "x/two", "x/one"), row("d", 1), row("e", None)]
    rows += [row(f"n{number}", 1, f"y/{number}") for number in range(20)]
    colors = choose_colors(rows)
    assert colors["x/two"] == "0"
    assert len(colors) == 7
    coloring = Coloring(BY_JOB, colors)
    assert 'class="k0"' in cell(rows[2], coloring)
    assert 'title="c: x/two and 1 more"' in cell(rows[2], coloring)
    assert 'class="krest"' in cell(rows[-1], coloring)
    assert 'class="free"' in cell(rows[3], coloring)
    assert 'class="unknown"' in cell(rows[4], coloring)
    assert 'title="e"' in cell(rows[4], coloring)


def test_gpus_are_shown_one_by_one() -> None:
    gpus = [
        GpuRow("n", "0", "H200", 1, ill=False, job="lab/train"),
        GpuRow("n", "1", "", 0, ill=True, job=""),
        GpuRow("n", "2", "", 0, ill=False, job=""),
        GpuRow("n", "3", "", 0, ill=False, job="", shared=True),
    ]
    page = draw_gpus(gpus)
    assert 'aria-label="GPUs: 1 used, 1 ill, 1 free, 1 unknown"' in page
    assert '<i class="gpu used" title="GPU 0 (H200): used by lab/train">▪</i>' in page
    assert '<i class="gpu ill" title="GPU 1: ill">×</i>' in page
    assert '<i class="gpu unknown" title="GPU 3: unknown"></i>' in page


def test_a_cell_is_drawn_anew_once_its_node_or_its_colour_is_another():
    memo, one = Memo(), row("n", 1, "x/one")

    def draw(node: NodeRow, coloring: Coloring) -> str:
        return draw_group(NodeGroup("g", (node,)), coloring, memo)

    assert 'class="b0"' in draw(one, Coloring(BY_USE))
    assert 'class="b4"' in draw(row("n", 8, "x/one"), Coloring(BY_USE))
    assert 'class="b0"' in draw(one, Coloring("memory"))
    assert 'class="k0"' in draw(one, Coloring(BY_JOB, {"x/one": "0"}))
    assert 'class="k1"' in draw(one, Coloring(BY_JOB, {"x/one": "1"}))
    assert 'class="krest"' in draw(one, Coloring(BY_JOB))
