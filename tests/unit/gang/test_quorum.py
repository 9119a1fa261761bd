"""How many of a gang's pods go, and which."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node

from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Refusal, place
from muster.gang.quorum import Quorum, place_enough
from muster.gang.shapes import Shape

SMALL, LARGE = Shape(requests=(("cpu", 1000), ("pods", 1))), Shape(requests=(("cpu", 3000), ("pods", 1)))


def nodes(cpus: list[int]) -> Capacity:
    """A node for each number of CPUs."""
    capacity = Capacity()
    for number, amount in enumerate(cpus):
        capacity.set_node(make_node(f"n{number}", resources={"cpu": str(amount)}))
    return capacity


def placed(capacity: Capacity, pods: dict[str, Shape], quorums: list[Quorum]) -> tuple[str, ...] | None:
    outcome = place_enough(partial(place, capacity), pods, quorums)
    if isinstance(outcome, Refusal):
        return None
    assert sum(count for nodes in outcome.placement.nodes.values() for _, count in nodes) == len(outcome.pods)
    return outcome.pods


ALIKE = {"a": SMALL, "b": SMALL, "c": SMALL}
MIXED = {"driver": LARGE, "x": SMALL, "y": SMALL, "z": SMALL}
LARGE_FIRST = {"p": LARGE, "q": LARGE, "r": SMALL, "s": SMALL}


@pytest.mark.parametrize(
    ("cpus", "pods", "quorums", "expected"),
    [
        pytest.param([3], ALIKE, [], ("a", "b", "c"), id="all fit"),
        pytest.param([2], ALIKE, [], None, id="all or none"),
        pytest.param([2], ALIKE, [("abc", 2)], ("a", "b"), id="the minimum, the first of them"),
        pytest.param([1], ALIKE, [("abc", 2)], None, id="less than the minimum"),
        pytest.param([3], ALIKE, [("abc", 1)], ("a", "b", "c"), id="more than the minimum if there is room"),
        pytest.param([3, 1], MIXED, [("driver",), ("x", "y", "z", 1)], ("driver", "x"), id="a minimum for each role"),
        pytest.param([2, 2], MIXED, [("driver",), ("x", "y", "z", 1)], None, id="a role that fits nowhere"),
        pytest.param([2], LARGE_FIRST, [("pqrs", 2)], ("r", "s"), id="others if the first are too large"),
    ],
)
def test_which_go(cpus, pods, quorums, expected):
    assert placed(nodes(cpus), pods, [quorum(*one) for one in quorums]) == expected


def quorum(*of: str | int) -> Quorum:
    """`("abc", 2)`: two of a, b and c; `("driver",)`: all of them."""
    names = [name for name in of if isinstance(name, str)]
    least = [least for least in of if isinstance(least, int)] or [len(names)]
    return Quorum(frozenset(names if len(names) > 1 or names[0] == "driver" else names[0]), least[0])


@given(rooms=st.lists(st.integers(0, 6), min_size=1, max_size=4), count=st.integers(1, 9), least=st.integers(0, 9))
def test_of_like_pods_as_many_go_as_there_is_room_for(rooms, count, least):
    pods, least = {f"p{n}": SMALL for n in range(count)}, min(least, count)
    chosen = placed(nodes(rooms), pods, [Quorum(frozenset(pods), least)])
    if sum(rooms) < max(least, 1):
        assert chosen is None
    else:
        assert chosen == tuple(pods)[: sum(rooms)]


@given(
    rooms=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    large=st.integers(0, 3),
    small=st.integers(1, 4),
    least=st.integers(0, 7),
)
def test_what_goes_meets_the_quorum(rooms, large, small, least):
    pods = {f"l{n}": LARGE for n in range(large)} | {f"s{n}": SMALL for n in range(small)}
    least = min(least, len(pods))
    chosen = placed(nodes(rooms), pods, [Quorum(frozenset(pods), least)])
    if chosen is not None:
        assert len(chosen) >= least
    elif least <= small:
        assert sum(rooms) < max(least, 1), "as many small ones alone would have fitted"
