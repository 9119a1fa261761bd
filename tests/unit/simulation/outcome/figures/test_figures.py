from itertools import pairwise
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.queueing.model import FlavorResource
from muster.simulation.outcome.figures.fairness import average_known, index_shares, measure_shares
from muster.simulation.outcome.figures.forecasts import trace_errors
from muster.simulation.outcome.figures.losses import draw_losses
from muster.simulation.outcome.figures.nodes import list_sizes, split_numbers, split_room
from muster.simulation.outcome.figures.palette import Palette
from muster.simulation.outcome.figures.use import split_use
from muster.simulation.outcome.figures.waits import name_size, trace_waits
from muster.simulation.outcome.fragmentation import FreeRoom
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.outcome.timeline import build_timeline
from muster.simulation.outcome.usechanges import RecordedUse

AMOUNTS = st.lists(st.tuples(*[st.floats(0, 1e6)] * 3), max_size=20)


@given(AMOUNTS)
def test_the_parts_of_use_add_up_to_it(amounts):
    bins = [(used, min(borrowed, used), lost) for used, borrowed, lost in amounts]
    columns = [list(column) for column in zip(*bins, strict=True)] if bins else [[], [], []]
    layers = split_use(*columns)
    assert [sum(one) for one in zip(*(layer.values for layer in layers), strict=True)] == pytest.approx(columns[0])
    assert all(value >= 0 for layer in layers for value in layer.values)


def test_lost_use_is_taken_from_what_was_borrowed_first():
    layers = split_use([10, 10, 10], [4, 4, 0], [3, 6, 2])
    assert [tuple(layer.values) for layer in layers] == [(6, 4, 8), (1, 0, 0), (3, 6, 2)]


@given(st.integers(0, 500), st.integers(0, 60), st.integers(1, 100))
def test_the_parts_of_free_room_add_up_to_it(more, fitting, largest):
    room = FreeRoom("w", "gpu", 8)
    room.add(0.0, fitting * 8 + more, fitting)
    sizes = list_sizes(largest)
    layers = split_room(room, sizes, 1)
    assert sum(layer.values[0] for layer in layers) == fitting * 8 + more
    assert layers[-1].values[0] == more
    assert all(bigger % smaller == 0 for smaller, bigger in pairwise(sizes))


def test_queues_that_have_no_colour_are_one_layer():
    palette = Palette.of({f"q{number}": float(number) for number in range(10)})
    assert palette.queues == ["q9", "q8", "q7", "q6", "q5", "q4"]
    layers = palette.stack([(f"q{number}", [1.0]) for number in range(10)], 1)
    assert [(layer.name, layer.values[0], layer.color) for layer in layers][-2:] == [
        ("q4", 1, "5"),
        ("other queues", 4, "rest"),
    ]


@pytest.mark.parametrize(
    ("pods", "name"), [(1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-16"), (17, "17-64"), (65, "65-256")]
)
def test_sizes_are_classes(pods, name):
    assert name_size(pods) == name


def test_a_curve_of_many_waits_has_few_points_and_never_falls():
    record = SimulationRecord(["w"])
    record.now = 10_000.0
    for number in range(5000):
        record.submit("w", 0, "", 1, 0, float(number), 1.0)
    points = trace_waits(list(record.jobs()), 10_000.0)
    assert len(points) <= 202
    assert points == sorted(points)
    assert (points[0][1], points[-1][1]) == (0, 100)


def test_fairness_counts_queues_that_hold_or_want_quota():
    record = SimulationRecord(["w"])
    for queue in ("a", "b", "idle", "without"):
        record.quotas.set(0.0, queue, {FlavorResource("f", "cpu"): 0 if queue == "without" else 1000})
    record.change(0.0, "a", "f", "cpu", 2000)
    record.submit("w", 0, "b", 1, 0, 5.0, 1.0)
    record.now = 10.0
    timeline = build_timeline(RecordedUse(record))
    shares = measure_shares(timeline, "cpu")
    assert {queue: share[0] for queue, share in shares.items()} == {"a": 2.0, "b": 0.0, "idle": 0.0}
    indexes = index_shares(timeline, shares)
    assert isnan(indexes[0])
    assert indexes[9] == 0.5
    assert average_known(indexes) == 0.5
    assert average_known(indexes[:2]) is None


@pytest.mark.parametrize(
    ("stop", "titles"),
    [
        ("evict", ["Evictions", "Lost work, in pod hours"]),
        ("interrupt", ["Interruptions", "Lost work, in pod hours"]),
        ("end", None),
    ],
)
def test_losses_are_drawn_by_their_cause(stop, titles):
    record = SimulationRecord(["w"])
    record.submit("w", 0, "a", 1, 0, 0.0, 60.0)
    record.start(0, 0.0, (("cpu", 1000),), {"n": 1})
    record.now = 10.0
    getattr(record, stop)(0, 10.0)
    record.now = 20.0
    section = draw_losses(build_timeline(RecordedUse(record)), Palette.of({"a": 1.0}))
    assert (section and [figure.title for figure in section.figures]) == titles


def test_names_are_in_the_order_of_people():
    names = ["n-10", "n-2", "m", "n-1", "", "7", "n-2b"]
    assert sorted(names, key=split_numbers) == ["", "7", "m", "n-1", "n-2", "n-2b", "n-10"]


def test_the_curve_of_errors_ends_with_the_share_that_the_axis_shows():
    points = trace_errors([0.0, 0.1, 1.0, 50.0])
    assert points == [(0.0, 0.0), (0.0, 25.0), (pytest.approx(1 / 3), 50.0), (pytest.approx(2 / 3), 75.0), (1.0, 75.0)]
