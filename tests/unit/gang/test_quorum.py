"""How many of a gang's pods go, and which."""

from collections import Counter
from functools import partial
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node

from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, Refusal, place
from muster.gang.quorum import Quorum, find_fewest, place_enough
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
TWO_ROLES = {"a": LARGE, "b": SMALL, "p": LARGE, "q": SMALL, "r": LARGE}
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
        pytest.param([5], TWO_ROLES, [("ab", 1), ("pqr", 2)], ("b", "p", "q"), id="the smallest of each role"),
    ],
)
def test_which_go(cpus, pods, quorums, expected):
    assert placed(nodes(cpus), pods, [quorum(*one) for one in quorums]) == expected


def quorum(*of: str | int) -> Quorum:
    """`("abc", 2)`: two of a, b and c; `("driver",)`: all of them."""
    names = [name for name in of if isinstance(name, str)]
    least = [least for least in of if isinstance(least, int)] or [len(names)]
    return Quorum(frozenset(names if len(names) > 1 or names[0] == "driver" else names[0]), least[0])


@pytest.mark.parametrize(
    ("quorums", "expected"),
    [
        pytest.param([("abcd", 2)], "ab", id="the first"),
        pytest.param([("abcd", 2), ("cd", 1)], "ac", id="the small one is met first, and counts for the large"),
        pytest.param([("cd", 1), ("abcd", 2)], "ac", id="in whichever order they come"),
        pytest.param([("abcd", 3), ("cd", 1)], "abc", id="more than one is lacking besides"),
        pytest.param([("bd", 2), ("abcd", 1)], "bd", id="the small one is enough for both"),
        pytest.param([("abcd", 0), ("ab", 1)], "a", id="none of one"),
        pytest.param([("ab", 1), ("cd", 2)], "acd", id="apart"),
    ],
)
def test_the_fewest_that_meet_every_quorum(quorums, expected):
    assert find_fewest("abcd", [quorum(*one) for one in quorums]) == frozenset(expected)


def test_a_refusal_is_that_of_the_fewest_that_would_do():
    pods = {"large": LARGE, "s": SMALL, "t": SMALL, "u": SMALL}
    quorums = [quorum("large", "s", "t", "u", 2), quorum("s", "t", "u", 2)]
    refusal = place_enough(partial(place, nodes([1])), pods, quorums)
    assert isinstance(refusal, Refusal)
    assert (refusal.shape, refusal.wanted, refusal.fits) == (SMALL, 2, 1)


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


@st.composite
def of_roles(draw: st.DrawFn) -> tuple[list[int], dict[str, Shape], list[Quorum]]:
    """Nodes, and roles whose pods differ in size, each with a minimum; some have a minimum of all pods, too."""
    pods: dict[str, Shape] = {}
    quorums = []
    for role in "abc"[: draw(st.integers(1, 3))]:
        sizes = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3))
        own = {
            f"{role}{number}": Shape(requests=(("cpu", 1000 * cpus), ("pods", 1))) for number, cpus in enumerate(sizes)
        }
        quorums.append(Quorum(frozenset(own), draw(st.integers(0, len(own)))))
        pods |= own
    if draw(st.booleans()):
        quorums.append(Quorum(frozenset(pods), draw(st.integers(1, len(pods)))))
    return draw(st.lists(st.integers(1, 10), min_size=1, max_size=3)), pods, quorums


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(of_roles())
def test_where_some_of_the_pods_that_are_enough_fit_they_go(problem):
    rooms, pods, quorums = problem
    capacity = nodes(rooms)

    def do(chosen: tuple[str, ...]) -> bool:
        enough = all(len(one.pods.intersection(chosen)) >= one.least for one in quorums)
        return enough and isinstance(place(capacity, Counter(pods[uid] for uid in chosen)), Placement)

    some = any(do(chosen) for size in range(1, len(pods) + 1) for chosen in combinations(pods, size))
    assert bool(placed(capacity, pods, quorums)) == some
