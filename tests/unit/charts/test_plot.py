import re
from xml.etree import ElementTree as ET

import pytest

from muster.charts.plot import (
    COLORS,
    HEIGHT,
    LinePoints,
    Series,
    color_of,
    draw_cells,
    draw_legend,
    draw_lines,
    draw_stack,
    draw_table,
    list_steps,
    sum_layers,
)
from muster.charts.scales import Tick


def paths(text):
    return {one.attrib["class"]: one.attrib["d"] for one in ET.fromstring(text).iter("path")}


def test_layers_add_up():
    assert sum_layers([[1, 2], [3, 4]], 2) == [[0, 0], [1, 2], [4, 6]]


def test_steps_have_a_corner_only_where_the_value_changes():
    assert list_steps([0, 1, 2, 3], [5, 5, 7]) == [(0, 5), (2, 5), (2, 7), (3, 7)]


def test_a_stack_reaches_from_the_ground_to_the_sum():
    layers = [Series("a", [1, 1], "0"), Series("b", [1, 3], "1")]
    drawn = paths(draw_stack([0, 5, 10], layers, [Series("all", [4, 4], "limit")], [], "x"))
    assert drawn["a0"] == f"M0 150H1000V{HEIGHT}H0Z"
    assert drawn["a1"] == "M0 100H500V0H1000V150H0Z"
    assert drawn["llimit"] == "M0 0H1000"


def test_lines_go_through_their_points():
    line = LinePoints("a", [(0.0, 0.0), (0.5, 50.0), (1.0, 100.0)], "2")
    assert paths(draw_lines([line], [], 100.0, "x")) == {"l2": "M0 200L500 100L1000 0"}


def test_the_cell_with_most_is_darkest_and_an_empty_one_is_not_drawn():
    text = draw_cells([[0, 1], [100, 0]], [], [], "x")
    cells = {one.attrib["class"]: (one.attrib["x"], one.attrib["y"]) for one in ET.fromstring(text).iter("rect")}
    assert cells == {"m0": ("500", "100"), "m4": ("0", "0")}


@pytest.mark.parametrize("count", [1, 2, 12])
def test_no_cell_is_behind_the_name_of_its_row(count):
    """A name is 12 pixels high, and 14 of them below the line of its row."""
    names = [Tick((number + 1) / count, f"row {number}") for number in range(count)]
    drawing = ET.fromstring(draw_cells([[1.0]] * count, [], names, "x", named=True))
    cells = [(float(one.attrib["y"]), float(one.attrib["height"])) for one in drawing.iter("rect")]
    (top,) = (float(one.attrib["y"]) for one in drawing.iter("svg") if one.attrib.get("class") == "shapes")
    texts = [float(one.attrib["y"]) - top for one in drawing.iter("text")]
    assert len(cells) == len(texts) == count
    for name, (y, height) in zip(texts, cells, strict=True):
        assert name + 3 < y
        assert height >= 20


def test_ticks_at_the_edges_stay_within_the_drawing():
    text = draw_lines([], [Tick(0.0, "0s"), Tick(0.5, "1h", minor=True), Tick(1.0, "2h")], 1.0, "x")
    assert re.findall('class="(tick[^"]*)" x="([^"]*)".*?text-anchor="([^"]*)"', text) == [
        ("tick", "0%", "start"),
        ("tick minor", "50%", "middle"),
        ("tick", "100%", "end"),
    ]


@pytest.mark.parametrize(
    "empty", [draw_stack([0, 1], [], [], [], ""), draw_cells([], [], [], ""), draw_lines([], [], 0, "")]
)
def test_nothing_is_drawn_of_nothing(empty):
    assert paths(empty) == {}


def test_series_without_a_colour_of_their_own_are_grey():
    assert [color_of(0), color_of(COLORS)] == ["0", "rest"]


def test_names_of_tables_and_legends_are_text():
    text = draw_table(["<a>", "<e>"], [["<b>", "<c>"]]) + draw_legend([("<d>", "0")])
    assert [one for one in "abcd" if f"&lt;{one}&gt;" not in text] == []


def test_the_words_of_a_table_stand_left_and_its_numbers_right():
    text = str(draw_table(["queue", "figure", "before"], [["q", "wait", "5"]], words=2))
    assert '<th scope="col" class="words">figure</th><th scope="col">before</th>' in text
    assert '<td class="words">wait</td><td>5</td>' in text
