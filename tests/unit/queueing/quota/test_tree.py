"""Tests of the quota tree: situations with numbers, and laws over random trees and histories."""

import operator
from typing import Any

import pytest
from hypothesis import given as sampled
from hypothesis import strategies as st
from tests.unit.queueing import given

from muster.queueing.model import CohortSpec, FlavorResource, QueueSpec, Quota, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree


def queue(gpus: Any, cohort: str = "", used: int = 0) -> dict[str, Any]:
    return {"cohort": cohort, "groups": [{"uno": {"gpu": gpus}}], "used": {"uno/gpu": used}}


def cohort(gpus: Any = 0, parent: str = "") -> dict[str, Any]:
    return {"parent": parent, "groups": [{"uno": {"gpu": gpus}}]}


GPU = FlavorResource("uno", "gpu")
LIMITED = [10, None, 0]  # nothing is lent

# Queues and Cohorts, then of each queue what is available and what could be. Quota is [NOMINAL, BORROWING, LENDING].
TREES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, tuple[int, int]]]] = {
    "alone": (
        {"none": queue(0, used=1), "some": queue(5, used=2), "more": queue(10, used=10)},
        {},
        {"none": (-1, 0), "some": (3, 5), "more": (0, 10)},
    ),
    "what one does not lend is its own": (
        {"open": queue(10, "team", 10), "close": queue([10, None, 9], "team", 5)},
        {"team": cohort(10)},
        {"open": (15, 29), "close": (15, 30)},
    ),
    "borrowing from the quota of the cohort": (
        {"one": queue(10, "team", 11)},
        {"team": cohort(10)},
        {"one": (9, 20)},
    ),
    "too much use in one queue is felt in another": (
        {"greedy": queue(10, "team", 31), "aside": queue([10, 0, 0], "team")},
        {"team": cohort(10)},
        {"greedy": (-11, 20), "aside": (-1, 10)},
    ),
    "limits of both kinds": (
        {"free": queue(10, "team", 20), "few": queue([10, 2], "team", 10), "own": queue([10, None, 5], "team", 6)},
        {"team": cohort(10)},
        {"free": (4, 35), "few": (2, 12), "own": (4, 40)},
    ),
    "cohorts under a cohort": (
        {"left": queue(10, "left", 10), "right": queue(LIMITED, "right", 5)},
        {"root": cohort(), "left": cohort(10, "root"), "right": cohort(10, "root")},
        {"left": (20, 30), "right": (25, 40)},
    ),
    "a borrowing limit of a cohort": (
        {"one": queue(10, "left"), "two": queue([10, 5], "left"), "far": queue(10, "right")},
        {"root": cohort(), "left": cohort([10, 5], "root"), "right": cohort(10, "root")},
        {"one": (35, 35), "two": (15, 15), "far": (50, 50)},
    ),
    "a lending limit of a cohort": (
        {
            "one": queue([10, None, 5], "left"),
            "two": queue(10, "left"),
            "far": queue(0, "right"),
            "top": queue(0, "root"),
        },
        {"root": cohort(), "left": cohort([0, None, 5], "root"), "right": cohort(0, "root")},
        {"one": (20, 20), "two": (15, 15), "far": (5, 5), "top": (5, 5)},
    ),
    "a cohort that nobody describes": (
        {"one": queue(4, "team", 5), "two": queue(4, "team")},
        {},
        {"one": (3, 8), "two": (3, 8)},
    ),
    "a cohort may lend more than it has itself": (
        {"one": queue(4, "low"), "far": queue(0, "top")},
        {"low": cohort([2, None, 5], "top"), "top": cohort()},
        {"one": (6, 6), "far": (5, 5)},
    ),
    "pitfall 24: nothing of its own and borrowing is a usual pattern": (
        {"poor": queue([0, 3], "team"), "rich": queue(8, "team", 2)},
        {},
        {"poor": (3, 3), "rich": (6, 8)},
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_available_and_potential(name: str) -> None:
    queues, cohorts, expected = TREES[name]
    tree = given.tree(queues, cohorts)
    assert {
        queue: (tree.queues[queue].available(GPU), tree.queues[queue].potential(GPU)) for queue in queues
    } == expected
    for queue, written in queues.items():
        tree.queues[queue].remove(given.usage(written["used"]))
    assert {queue: tree.queues[queue].available(GPU) for queue in queues} == {
        queue: potential for queue, (_, potential) in expected.items()
    }


def test_pitfall_23_only_what_exceeds_the_part_that_is_not_lent_counts_above() -> None:
    tree = given.tree({"one": queue([10, 1, 4], "team")}, {})
    one, team = tree.queues["one"], tree.cohorts["team"]
    result = []
    for _ in range(4):
        one.add({GPU: 3})
        result.append((one.usage[GPU], team.usage.get(GPU, 0), one.borrows(GPU)))
    assert result == [(3, 0, False), (6, 0, False), (9, 3, False), (12, 6, True)]


def test_pitfall_23_the_borrowing_limit_is_relative_to_what_is_there() -> None:
    tree = given.tree({"one": queue([10, 1], "low"), "two": queue(20, "top")}, {"low": cohort([5, 2], "top")})
    assert tree.queues["one"].potential(GPU) == 11  # its own and 1
    assert tree.cohorts["low"].potential(GPU) == 17  # 10 below it, 5 of its own and 2


def test_pitfall_25_quota_that_is_cut_leaves_less_than_nothing() -> None:
    tree = given.tree({"one": queue(10, used=8)})
    tree.hold(holder("w", "one", 2))
    node = tree.set_queue(given.queue("one", queue(4)))
    assert tree.set_queue(given.queue("one", queue(4))) is node
    assert (node.available(GPU), set(node.workloads), node.fits({GPU: 1})) == (-6, {"ns/w"}, False)
    assert node.fits({GPU: 0})


def test_pitfall_26_a_stopped_queue_still_lends() -> None:
    tree = given.tree({"one": queue(0, "team")})
    tree.set_queue(QueueSpec("two", "team", quotas={GPU: Quota(4)}, stop="HoldAndDrain"))
    assert tree.queues["one"].available(GPU) == 4


@pytest.mark.parametrize(
    ("parents", "inside"),
    [
        ({"a": "a"}, {"a"}),
        ({"a": "b", "b": "a", "c": "a", "d": "e"}, {"a", "b", "c"}),
        ({"a": "b", "b": "c", "c": "d", "d": "b"}, {"a", "b", "c", "d"}),
        ({"a": "b", "b": "c"}, set()),
    ],
)
def test_circles(parents: dict[str, str], inside: set[str]) -> None:
    queues = {f"q{name}": queue(1, name) for name in parents}
    tree = given.tree(queues, {name: {"parent": parent} for name, parent in parents.items()})
    assert {name for name in tree.cohorts if tree.is_in_circle(tree.cohorts[name])} == inside
    assert {name for name in tree.queues if tree.is_in_circle(tree.queues[name])} == {f"q{name}" for name in inside}


def test_a_broken_circle_is_a_tree_again() -> None:
    tree = given.tree({"q": queue(1, "a")}, {"a": {"parent": "b"}, "b": {"parent": "c"}, "c": {"parent": "a"}})
    tree.set_cohort(CohortSpec("c", quotas={GPU: Quota(5)}))
    assert not tree.is_in_circle(tree.queues["q"])
    assert [node.name for node in tree.queues["q"].ancestors()] == ["a", "b", "c"]
    assert tree.queues["q"].available(GPU) == 6


def test_a_queue_named_like_a_cohort_in_a_circle_is_not_in_it() -> None:
    tree = given.tree({"a": queue(1)}, {"a": {"parent": "a"}})
    assert not tree.is_in_circle(tree.queues["a"])


def test_a_workload_that_moved_to_another_queue_leaves_the_first() -> None:
    tree = given.tree({"one": queue(4), "two": queue(4)})
    tree.hold(holder("w", "one", 3))
    tree.hold(holder("w", "two", 2))
    assert (tree.queues["one"].available(GPU), tree.queues["two"].available(GPU)) == (4, 2)
    tree.release(holder("w", "one", 0))
    assert tree.queues["two"].available(GPU) == 4


def test_releasing_what_was_in_a_queue_that_is_gone() -> None:
    tree = given.tree({"one": queue(4, "team"), "two": queue(0, "team")})
    tree.hold(holder("w", "one", 3))
    assert tree.holder("ns/w") is not None
    tree.remove_queue("one")
    assert tree.holder("ns/w") is None
    tree.release(holder("w", "one", 3))
    assert (tree.queues["two"].available(GPU), set(tree.cohorts)) == (0, {"team"})
    tree.remove_queue("two")
    assert not tree.cohorts


def holder(name: str, queue: str, gpus: int) -> WorkloadInfo:
    return given.workload(name=name, queue=queue, usage={GPU: gpus})


# --- Laws.

NAMES = st.sampled_from(["a", "b", "c"])
COHORTS = st.sampled_from(["", "x", "y", "z"])
FRS = [FlavorResource("uno", "gpu"), FlavorResource("due", "gpu")]
limits = st.none() | st.integers(0, 6)
quotas = st.dictionaries(st.sampled_from(FRS), st.builds(Quota, st.integers(0, 8), limits, limits), max_size=2)
amounts = st.dictionaries(st.sampled_from(FRS), st.integers(0, 9), max_size=2)
queue_specs = st.builds(lambda name, cohort, quotas: QueueSpec(name, cohort, quotas=quotas), NAMES, COHORTS, quotas)
cohort_specs = st.builds(CohortSpec, st.sampled_from(["x", "y", "z"]), COHORTS, quotas)
workloads = st.builds(
    lambda name, queue, usage: given.workload(name=name, queue=queue, usage=usage),
    st.sampled_from("mn"),
    NAMES,
    amounts,
)
steps = st.one_of(
    st.tuples(st.just("set_queue"), queue_specs),
    st.tuples(st.just("remove_queue"), NAMES),
    st.tuples(st.just("set_cohort"), cohort_specs),
    st.tuples(st.just("remove_cohort"), st.sampled_from(["x", "y", "z"])),
    st.tuples(st.just("hold"), workloads),
    st.tuples(st.just("release"), workloads),
)
# Most steps do nothing where there is no ClusterQueue, and the law of what is in use wants something in use.
histories = st.builds(
    operator.add,
    st.lists(
        st.tuples(st.just("set_queue"), queue_specs) | st.tuples(st.just("hold"), workloads), min_size=6, max_size=9
    ),
    st.lists(steps, min_size=3, max_size=20),
)


class History:
    """A tree beside the specifications from which it can be built again."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.queues: dict[str, QueueSpec] = {}
        self.cohorts: dict[str, CohortSpec] = {}
        self.held: dict[str, WorkloadInfo] = {}

    def step(self, what: str, value: Any) -> None:
        if what == "hold" and value.queue not in self.queues:
            return
        getattr(self.tree, what)(value)
        if what == "set_queue":
            self.queues[value.name] = value
        elif what == "remove_queue":
            self.queues.pop(value, None)
            self.held = {key: workload for key, workload in self.held.items() if workload.queue != value}
        elif what == "set_cohort":
            self.cohorts[value.name] = value
        elif what == "remove_cohort":
            self.cohorts.pop(value, None)
        elif what == "hold":
            self.held[value.key] = value
        else:
            self.held.pop(value.key, None)

    def rebuilt(self) -> Tree:
        tree = Tree()
        for queue in self.queues.values():
            tree.set_queue(queue)
        for cohort in reversed(self.cohorts.values()):
            tree.set_cohort(cohort)
        for workload in self.held.values():
            tree.hold(workload)
        return tree


def picture(tree: Tree) -> dict[str, Any]:
    """Return everything that decisions can see; of Cohorts in a circle only that they are."""
    nodes = [*tree.queues.values(), *tree.cohorts.values()]
    result = {f"{'queue' if node.is_queue else 'cohort'} {node.name}": _seen(tree, node) for node in nodes}
    return result | {"unready": set(tree.unready)}


def _seen(tree: Tree, node: Node) -> Any:
    if tree.is_in_circle(node):
        return "circle"
    numbers = {name: _nonzero(getattr(node, name)) for name in ("subtree", "local", "usage")}
    rest = {fr: (node.available(fr), node.potential(fr)) for fr in FRS}
    parent = node.parent.name if node.parent else ""
    over = {fr: [child.name for child in node.borrowers([fr])] for fr in FRS}
    return numbers, rest, node.height, parent, set(node.workloads), list(node.children), over


def _nonzero(numbers: dict[FlavorResource, int]) -> dict[FlavorResource, int]:
    return {fr: number for fr, number in numbers.items() if number}


@sampled(histories)
def test_after_any_history_the_tree_is_as_if_built_anew(history: list[tuple[str, Any]]) -> None:
    run = History()
    for what, value in history:
        run.step(what, value)
        assert picture(run.tree) == picture(run.rebuilt())


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    run = History()
    for spec in draw(st.lists(queue_specs, min_size=1, max_size=3)):
        run.step("set_queue", spec)
    for cohort in draw(st.lists(cohort_specs, max_size=3)):
        run.step("set_cohort", cohort)
    for queue in list(run.queues):
        run.tree.queues[queue].add(draw(amounts))
    return run.tree


@sampled(trees(), amounts)
def test_what_is_added_and_removed_leaves_no_trace(tree: Tree, usage: dict[FlavorResource, int]) -> None:
    for node in tree.queues.values():
        before = picture(tree)
        node.add(usage)
        node.remove(usage)
        assert picture(tree) == before


@sampled(histories)
def test_a_cohort_knows_which_children_use_more_than_their_own(history: list[tuple[str, Any]]) -> None:
    run = History()
    for what, value in history:
        run.step(what, value)
        for node in run.tree.cohorts.values():
            for fr in FRS:
                assert node.borrowers([fr]) == [child for child in node.children.values() if child.borrows(fr)]


@sampled(trees())
def test_a_cohort_uses_what_its_children_use_beyond_their_own(tree: Tree) -> None:
    for node in tree.cohorts.values():
        for fr in FRS:
            spills = [max(0, child.usage.get(fr, 0) - child.local.get(fr, 0)) for child in node.children.values()]
            assert node.usage.get(fr, 0) == sum(spills)


@sampled(trees(), st.sampled_from(FRS))
def test_what_is_available_takes_nobody_over_its_limits(tree: Tree, fr: FlavorResource) -> None:
    for queue in tree.queues.values():
        more = queue.available(fr)
        assert more <= queue.potential(fr)
        before = {node.name: node.usage.get(fr, 0) for node in (queue, *queue.ancestors())}
        queue.add({fr: max(0, more)})
        for node in (queue, *queue.ancestors()):
            limit = None if node.parent is None else node.quota(fr).borrowing
            if node.parent is None or limit is not None:
                assert node.usage.get(fr, 0) <= max(before[node.name], node.subtree.get(fr, 0) + (limit or 0))
        queue.remove({fr: max(0, more)})


@sampled(trees(), st.lists(st.tuples(NAMES, amounts), max_size=12))
def test_whoever_takes_only_what_fits_never_uses_more_than_there_is(
    tree: Tree, wishes: list[tuple[str, dict[FlavorResource, int]]]
) -> None:
    for node in tree.queues.values():
        node.remove(dict(node.usage))
    for name, wish in wishes:
        if (node := tree.queues.get(name)) is not None and node.fits(wish):  # type: ignore[assignment]
            node.add(wish)
        for root in {id(queue.root): queue.root for queue in tree.queues.values()}.values():
            for fr in FRS:
                used = sum(queue.usage.get(fr, 0) for queue in root.queues())
                assert used <= total(root, fr)


def total(node: Node, fr: FlavorResource) -> int:
    """Return all quota at and below a node."""
    return node.quota(fr).nominal + sum(total(child, fr) for child in node.children.values())
