"""Tests of dominant resource shares, and of the order of contenders."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.queueing.random_worlds import built
from tests.unit.queueing.random_worlds import worlds as random_worlds
from tests.unit.queueing.worlds import nodes, state, tree_of, usage_of, workload

from muster.queueing.model import FlavorResource
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.fairness import Contender, FairSharing, Share, Shares, Tournament, share

_SHARES = yaml.load((Path(__file__).parents[1] / "cases" / "shares.yaml").read_text(), yaml.CSafeLoader)


@pytest.mark.parametrize("case", _SHARES["cases"], ids=lambda case: case["name"])
def test_share(case: dict[str, Any]):
    tree = tree_of({**_SHARES["worlds"].get(case.get("world"), {}), **case})
    extra = {name: usage_of(text) for name, text in case.get("extra", {}).items()}
    result = {node.name: share(node, extra.get(node.name, {})) for node in nodes(tree)}
    assert {
        name: [result[name].weighted, result[name].resource, bool(result[name].borrowed)] for name in case["shares"]
    } == case["shares"]


_PAIR = {"queues": {"user": "in=both cpu=2 gpu=5", "lender": "in=both cpu=8 gpu=5"}}


@pytest.mark.parametrize(
    ("used", "asked", "borrows"),
    [
        pytest.param("cpu=3", "cpu=1", True, id="what it asks for"),
        pytest.param("cpu=1 gpu=7", "cpu=1", False, id="only something else"),
        pytest.param("cpu=3 gpu=7", "gpu=1", True, id="both, asks for one"),
        pytest.param("cpu=3", "cpu=0", False, id="asks for nothing of it"),
        pytest.param("cpu=1 gpu=2", "cpu=1", False, id="nothing"),
    ],
)
def test_borrows_of(used: str, asked: str, borrows: bool):
    tree = tree_of({**_PAIR, "admitted": {"w": f"user {used}"}})
    assert share(tree.queues["user"]).borrows_of(usage_of(asked)) is borrows


def test_shares_compare_exactly_where_floats_would_not_tell_them_apart_pitfall_34():
    lendable = (1 << 60) + 1
    tree = tree_of(
        {"queues": {"a": "in=c cpu=0", "b": "in=c cpu=0", "big": f"in=c cpu={lendable}"}},
    )
    fr = FlavorResource("default", "cpu")
    a, b = (share(tree.queues[name], {fr: amount}) for name, amount in (("a", lendable - 1), ("b", lendable)))
    assert float(a.value) == float(b.value)
    assert a < b
    assert a.weighted == b.weighted == 1000


def test_without_bound_is_more_than_any_number_pitfall_34():
    assert Share(True, Fraction(1)) > Share(False, Fraction(10**30))
    assert Share(True, Fraction(2)) > Share(True, Fraction(1))
    assert Share(True, Fraction(1), "cpu") == Share(True, Fraction(1), "gpu")


def test_shares_are_computed_again_only_where_usage_changed():
    tree = tree_of({"cohorts": {"in": "in=top", "top": "cpu=9"}, "queues": {"a": "in=in cpu=0", "b": "in=top cpu=0"}})
    a, b, cohort = tree.queues["a"], tree.queues["b"], tree.cohorts["in"]
    shares = Shares()
    known = shares.of(b)
    assert shares.of(a) == shares.of(cohort) == known == Share()
    a.add(usage_of("cpu=3"))
    shares.forget_shares(a)
    assert shares.of(a) == shares.of(cohort) == Share(False, Fraction(1000, 3))
    assert shares.of(b) is known


# Tournament


def _contenders(tree: Tree, heads: dict[str, str]) -> list[Contender]:
    """Return contenders by name; `!` in front of the line marks a preemptor."""
    result = []
    for name, text in heads.items():
        line = text.removeprefix("!")
        head = workload(name, line)
        result.append(Contender(tree.queues[head.queue], head, head.usage or {}, preemptor=text != line))
    return result


def _order(tree: Tree, heads: Iterable[Contender], fair: FairSharing) -> list[str]:
    """Return the order in which the heads would be admitted, one after the other."""
    tournament = Tournament(heads, fair)
    order = []
    while (winner := tournament.pop()) is not None:
        winner.queue.add(winner.usage)
        order.append(winner.workload.uid)
    return order


@pytest.mark.parametrize(
    ("case", "heads", "fair", "order"),
    [
        pytest.param(
            {"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}, "admitted": {"w": "a cpu=5"}},
            {"x": "a cpu=1", "y": "b cpu=5"},
            FairSharing(),
            ["y", "x"],
            id="the lower share with the workload added",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}, "admitted": {"w": "b cpu=4"}},
            {"x": "a cpu=7", "y": "b cpu=1"},
            FairSharing(),
            ["y", "x"],
            id="not the one that uses less now",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4 weight=4", "b": "in=c cpu=4"}},
            {"x": "a cpu=7", "y": "b cpu=5"},
            FairSharing(),
            ["x", "y"],
            id="weights count",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4 weight=0", "b": "in=c cpu=4"}},
            {"x": "a cpu=5 p=9", "y": "b cpu=8"},
            FairSharing(),
            ["y", "x"],
            id="pitfall 34: weight 0 is last once it borrows",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4 weight=0", "b": "in=c cpu=4"}},
            {"x": "a cpu=4 p=9", "y": "b cpu=4"},
            FairSharing(),
            ["x", "y"],
            id="of equal shares the priority",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}},
            {"x": "a cpu=1 queued=2", "y": "b cpu=1 queued=1"},
            FairSharing(),
            ["y", "x"],
            id="of equal priorities who waited longer",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}},
            {"y": "a cpu=1", "x": "b cpu=1"},
            FairSharing(),
            ["x", "y"],
            id="of equal moments the UID",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4 gpu=1", "b": "in=c cpu=4 gpu=9"}, "admitted": {"w": "a gpu=9"}},
            {"x": "a cpu=4", "y": "b cpu=5"},
            FairSharing(),
            ["x", "y"],
            id="who borrows something else is not behind",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4 gpu=1", "b": "in=c cpu=4 gpu=9"}, "admitted": {"w": "a gpu=9"}},
            {"x": "a cpu=4", "y": "b cpu=5"},
            FairSharing(prefer_nominal=False),
            ["y", "x"],
            id="unless that is switched off",
        ),
        pytest.param(
            {"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}},
            {"x": "a cpu=1", "y": "!b cpu=8"},
            FairSharing(),
            ["y", "x"],
            id="who waits for victims first",
        ),
        pytest.param(
            {
                "cohorts": {"l": "in=top cpu=2", "r": "in=top cpu=2", "top": "cpu=9"},
                "queues": {"a": "in=l cpu=0", "b": "in=l cpu=0", "d": "in=r cpu=0"},
                "admitted": {"w": "b cpu=3"},
            },
            {"x": "a cpu=1", "y": "b cpu=1 p=9", "z": "d cpu=3"},
            FairSharing(),
            ["z", "x", "y"],
            id="each cohort sends its best, and cohorts compete by their own shares",
        ),
        pytest.param(
            {"queues": {"a": "cpu=4", "b": "in=c cpu=1", "d": "in=c cpu=1", "e": "cpu=1"}},
            {"x": "a cpu=9", "y": "b cpu=2", "z": "d cpu=1", "w": "e cpu=1 p=1"},
            FairSharing(),
            ["w", "x", "z", "y"],
            id="trees compete by priority and time",
        ),
    ],
)
def test_tournament(case: dict[str, Any], heads: dict[str, str], fair: FairSharing, order: list[str]):
    tree = tree_of(case)
    assert _order(tree, _contenders(tree, heads), fair) == order


def test_nobody_competes():
    assert Tournament((), FairSharing()).pop() is None


def test_the_next_head_of_a_queue_enters():
    tree = tree_of({"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}})
    first, second, other = _contenders(tree, {"x": "a cpu=4", "y": "a cpu=1", "z": "b cpu=4 queued=5"})
    tournament = Tournament((first, other), FairSharing())
    assert tournament.pop() is first
    first.queue.add(first.usage)
    tournament.enter(second)
    assert [tournament.pop(), tournament.pop(), tournament.pop()] == [other, second, None]


def test_another_queue_enters_before_the_next_turn():
    tree = tree_of({"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}})
    first, other = _contenders(tree, {"x": "a cpu=4", "y": "b cpu=1"})
    tournament = Tournament((first,), FairSharing())
    assert tournament.pop() is first
    tournament.enter(other)
    assert [tournament.pop(), tournament.pop()] == [other, None]


def test_a_change_that_is_told_counts():
    tree = tree_of({"queues": {"a": "in=c cpu=4", "b": "in=c cpu=4"}})
    one, other = _contenders(tree, {"x": "a cpu=1", "y": "b cpu=1"})
    tournament = Tournament((one, other), FairSharing())
    one.queue.add(usage_of("cpu=7"))
    tournament.recompute_results(one.queue)
    assert tournament.pop() is other


def _slowly(tree: Tree, heads: list[Contender], fair: FairSharing) -> list[str]:
    """Find each winner by playing the whole tournament again."""
    waiting = {head.queue: head for head in heads}

    def key(node: Node, head: Contender):
        head.queue.add(head.usage)
        after = share(node)
        head.queue.remove(head.usage)
        one = head.workload
        last = fair.prefer_nominal and after.borrows_of(head.usage)
        return last, after, -one.priority, one.queued, one.uid

    def winner(node: Node) -> Contender | None:
        if node.is_queue:
            return waiting.get(node)
        return best(list(node.children.values()))

    def best(children: list[Node]) -> Contender | None:
        nominees = [(child, head) for child in children if (head := winner(child)) is not None]
        return min(nominees, key=lambda nominee: key(*nominee))[1] if nominees else None

    order = []
    roots = list({id(node.root): node.root for node in tree.queues.values()}.values())
    while (head := best(roots)) is not None:
        del waiting[head.queue]
        head.queue.add(head.usage)
        order.append(head.workload.uid)
    return order


@given(random_worlds(), st.builds(FairSharing, prefer_nominal=st.booleans()), st.data())
def test_the_tournament_equals_the_slow_one(case: dict[str, Any], fair: FairSharing, data: st.DataObject):
    orders = []
    heads = {
        f"h{number}": f"{queue} cpu={data.draw(st.integers(0, 4))} p={data.draw(st.integers(0, 1))}"
        for number, queue in enumerate(case["queues"])
    }
    for play in (_order, _slowly):
        tree = built(case).tree
        orders.append(play(tree, _contenders(tree, heads), fair))
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(heads)


@given(random_worlds())
def test_laws_of_shares(case: dict[str, Any]):
    tree = built(case).tree
    before = state(tree)
    for node in nodes(tree):
        result = share(node)
        assert result.value >= 0
        assert bool(result.borrowed) == (node.parent is not None and any(node.borrows(fr) for fr in node.subtree))
        assert bool(result.resource) == bool(result.value)
        assert result.infinite == bool(result.value and not node.weight)
        more = share(node, dict.fromkeys(node.subtree, 1))
        assert more >= result
    assert state(tree) == before
