"""Tests of which workloads shrink when quota is short: a table, and the laws that hold."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.queueing.elastic.sizing import ElasticWorkload, count_affordable, find_smaller_sizes
from muster.queueing.model import FlavorResource, FlavorSpec, PodSet, QueueSpec, Quota, ResourceGroup, WorkloadInfo
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.nomination import AdmissionSettings, nominate

START = datetime(2026, 1, 1, tzinfo=UTC)
CPU = FlavorResource("default", "cpu")
FLAVORS = {"default": FlavorSpec("default")}


def tree_of(**cpus: int) -> Tree:
    """Return ClusterQueues of one cohort, by their CPUs."""
    tree = Tree()
    for name, cpu in cpus.items():
        group = ResourceGroup(("cpu",), ("default",))
        tree.set_queue(QueueSpec(name, cohort="all", groups=(group,), quotas={CPU: Quota(cpu)}))
    return tree


def claim(name: str, queue: str, count: int, *, priority: int = 0, age: int = 0, held: bool = False) -> WorkloadInfo:
    return WorkloadInfo(
        key=f"default/{name}",
        uid=name,
        queue=queue,
        local_queue=f"default/{queue}",
        priority=priority,
        created=START - timedelta(seconds=age),
        queued=START - timedelta(seconds=age),
        podsets=(PodSet("main", count, {"cpu": 1}),),
        usage={CPU: count} if held else None,
    )


def elastic(
    tree: Tree, name: str, queue: str, size: int, least: int, *, priority: int = 0, age: int = 0
) -> ElasticWorkload:
    holder = claim(name, queue, size, priority=priority, age=age, held=True)
    tree.hold(holder)
    return ElasticWorkload(holder.key, queue, priority, holder.created, size, least, {CPU: 1})


def decide(
    tree: Tree, waiting: WorkloadInfo, holders: list[ElasticWorkload], least: int | None = None
) -> dict[str, int]:
    sizes = find_smaller_sizes(
        tree, waiting, least, holders, lambda one: nominate(tree, one, FLAVORS, AdmissionSettings()).fits
    )
    return {key.partition("/")[2]: size for key, size in sizes.items()}


@pytest.mark.parametrize(
    ("free", "count", "least", "wanted"),
    [
        (4, 6, 2, {"new": 4}),
        (2, 6, 2, {"new": 2}),
        (1, 6, 2, {}),
        (4, 6, None, {}),
    ],
)
def test_a_waiting_elastic_workload_starts_with_what_there_is(
    free: int, count: int, least: int | None, wanted: dict[str, int]
) -> None:
    tree = tree_of(a=free)
    assert decide(tree, claim("new", "a", count), [], least) == wanted


def test_others_shrink_by_no_more_than_is_needed_the_young_first() -> None:
    tree = tree_of(a=6)
    old = elastic(tree, "old", "a", 3, 1, age=9)
    young = elastic(tree, "young", "a", 3, 1, age=1)
    assert decide(tree, claim("new", "a", 1), [old, young]) == {"young": 2}
    assert decide(tree, claim("new", "a", 3), [old, young]) == {"young": 1, "old": 2}
    assert decide(tree, claim("new", "a", 4), [old, young]) == {"young": 1, "old": 1}
    assert decide(tree, claim("new", "a", 5), [old, young]) == {}


def test_low_priority_shrinks_first_and_a_higher_one_never() -> None:
    tree = tree_of(a=6)
    low = elastic(tree, "low", "a", 3, 1, priority=1, age=9)
    high = elastic(tree, "high", "a", 3, 1, priority=5, age=1)
    assert decide(tree, claim("new", "a", 1, priority=5), [low, high]) == {"low": 2}
    assert decide(tree, claim("new", "a", 3, priority=1), [low, high]) == {}


def test_what_a_cohort_lends_comes_back_from_another_queue() -> None:
    tree = tree_of(a=2, b=2)
    borrower = elastic(tree, "borrower", "b", 4, 1)
    assert decide(tree, claim("new", "a", 2), [borrower]) == {"borrower": 2}
    assert decide(tree, claim("new", "a", 3), [borrower]) == {}, "it would borrow in its turn"


def test_pods_of_two_cpus_give_back_no_more_of_them_than_were_borrowed() -> None:
    tree = tree_of(a=4, b=3)
    holder = replace(claim("borrower", "b", 3, held=True), usage={CPU: 6})
    tree.hold(holder)
    borrower = ElasticWorkload(holder.key, "b", 0, holder.created, 3, 0, {CPU: 2})
    assert decide(tree, claim("new", "a", 3), [borrower]) == {"borrower": 2}
    assert decide(tree, claim("new", "a", 4), [borrower]) == {}, "the last pod that it could spare is half its own"


def test_what_is_its_own_a_queue_does_not_give_back() -> None:
    tree = tree_of(a=2, b=6)
    holder = elastic(tree, "holder", "b", 6, 1)
    assert decide(tree, claim("new", "a", 5), [holder]) == {}


def test_several_of_another_queue_give_back_no_more_than_was_borrowed() -> None:
    tree = tree_of(a=4, b=2)
    old, young = elastic(tree, "old", "b", 3, 1, age=9), elastic(tree, "young", "b", 3, 2, age=1)
    assert decide(tree, claim("new", "a", 3), [old, young]) == {"young": 2, "old": 1}
    tree.hold(claim("rigid", "a", 1, held=True))
    assert decide(tree, claim("new", "a", 4), [old, young]) == {}


def test_a_waiting_elastic_workload_makes_others_shrink_for_its_least_only() -> None:
    tree = tree_of(a=6)
    running = elastic(tree, "running", "a", 6, 2)
    assert decide(tree, claim("new", "a", 4), [running], least=2) == {"running": 4}


@pytest.mark.parametrize(("free", "wanted", "pods"), [(0, 5, 0), (1, 5, 1), (3, 5, 3), (5, 5, 5), (9, 5, 5)])
def test_a_running_workload_can_grow_by_what_there_is_quota_for(free: int, wanted: int, pods: int) -> None:
    tree = tree_of(a=free)
    growth = claim("running", "a", wanted)
    assert count_affordable(growth, lambda one: nominate(tree, one, FLAVORS, AdmissionSettings()).fits) == pods


@st.composite
def situations(draw: st.DrawFn) -> tuple[Tree, WorkloadInfo, list[ElasticWorkload], int | None]:
    tree = tree_of(a=draw(st.integers(0, 8)), b=draw(st.integers(0, 8)))
    holders = []
    for number in range(draw(st.integers(0, 4))):
        size = draw(st.integers(1, 5))
        priority, age = draw(st.integers(0, 2)), draw(st.integers(0, 3))
        queue = draw(st.sampled_from("ab"))
        holders.append(elastic(tree, f"e{number}", queue, size, draw(st.integers(1, size)), priority=priority, age=age))
    waiting = claim("new", draw(st.sampled_from("ab")), draw(st.integers(1, 6)), priority=draw(st.integers(0, 2)))
    return tree, waiting, holders, draw(st.none() | st.integers(1, 6))


@given(situations())
def test_it_suffices_it_is_no_more_than_needed_and_the_tree_stays(
    situation: tuple[Tree, WorkloadInfo, list[ElasticWorkload], int | None],
) -> None:
    tree, waiting, holders, least = situation
    before = {name: dict(node.usage) for name, node in (tree.queues | tree.cohorts).items()}
    sizes = find_smaller_sizes(
        tree, waiting, least, holders, lambda one: nominate(tree, one, FLAVORS, AdmissionSettings()).fits
    )
    assert {name: dict(node.usage) for name, node in (tree.queues | tree.cohorts).items()} == before
    by_key = {one.key: one for one in holders}
    assert all(by_key[key].least <= size < by_key[key].size for key, size in sizes.items() if key in by_key)
    assert all(by_key[key].priority <= waiting.priority for key in sizes if key in by_key)
    if not sizes or waiting.key in sizes:
        return
    count = waiting.podsets[0].count if least is None else min(least, waiting.podsets[0].count)
    wanted = claim("new", waiting.queue, count, priority=waiting.priority)
    room = {key: by_key[key].size - size for key, size in sizes.items()}
    for key, pods in room.items():
        tree.queues[by_key[key].queue].remove({CPU: pods})
    assert nominate(tree, wanted, FLAVORS, AdmissionSettings()).fits
    others = {by_key[key].queue for key in sizes} - {waiting.queue}
    assert all(tree.queues[name].usage[CPU] >= tree.queues[name].subtree[CPU] for name in others)
    assert not others or before[waiting.queue].get(CPU, 0) + count <= tree.queues[waiting.queue].subtree[CPU]
    for key in room:
        tree.queues[by_key[key].queue].add({CPU: 1})
        assert not nominate(tree, wanted, FLAVORS, AdmissionSettings()).fits, "it could have kept one more"
        tree.queues[by_key[key].queue].remove({CPU: 1})
