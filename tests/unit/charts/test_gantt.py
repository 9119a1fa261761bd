from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from muster.charts.gantt import Bar, draw_gantt, merge_bars, place_bars

SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100), st.integers(0, 100)), max_size=40)


def bar(row, start, end, name="x", color="0"):
    return Bar(row, start, end, name, color)


@given(SPANS)
def test_no_two_bars_overlap_in_a_lane(spans):
    placed = place_bars((bar(row, start, start + length), 1) for row, start, length in spans)
    assert len(placed) == len(spans)
    ends: dict[tuple[int, int], float] = {}
    for one in placed:
        key = one.bar.row, one.lane
        assert ends.get(key, 0) <= one.bar.start
        ends[key] = one.bar.end


def test_a_row_uses_no_more_lanes_than_bars_at_a_time():
    placed = place_bars([(bar(0, 0, 5), 1), (bar(0, 5, 9), 1), (bar(0, 6, 7), 1), (bar(1, 0, 9), 1)])
    assert [one.lane for one in placed] == [0, 0, 1, 0]


@given(SPANS)
def test_merged_bars_stand_for_all_bars(spans):
    bars = [bar(row, start, start + length) for row, start, length in spans]
    merged = merge_bars(bars, 200.0, most=5)
    assert sum(count for _, count in merged) == len(bars)
    for one in bars:
        assert any(m.row == one.row and m.start <= one.start and one.end <= m.end for m, _ in merged)


def test_the_longest_bars_keep_their_names():
    bars = [bar(0, 0, 50, "long"), *(bar(0, 60 + number / 1000, 60.5, f"{number}") for number in range(100))]
    merged = merge_bars(bars, 100.0, most=1)
    assert (merged[0][0].name, merged[0][1]) == ("long", 1)
    assert len(merged) < 20


def test_a_bar_names_its_job_and_its_time():
    text = draw_gantt(["n"], [bar(0, 25.0, 75.0, "<job>", "3")], 100.0, [], "x")
    [rect] = ET.fromstring(text).iter("rect")
    assert [rect.attrib[one] for one in ("x", "width", "data-n", "data-s", "data-e", "class")] == [
        "250",
        "500",
        "<job>",
        "25",
        "75",
        "a3",
    ]


def test_bars_of_many_rows_are_few():
    bars = [bar(row, float(at), at + 0.5) for row in range(50) for at in range(200)]
    assert len(merge_bars(bars, 200.0, most=100)) <= 100 + 100 + 50
