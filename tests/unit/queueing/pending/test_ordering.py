"""Tests of the order within a ClusterQueue, as a table, and of its being an order."""

from datetime import timedelta
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.queueing import admission_worlds as aw

from muster.queueing.model import WorkloadInfo
from muster.queueing.pending.ordering import place

# Two lines, and whether the first comes first; a `*` marks the sticky one.
ORDER = [
    ("high: q p=2 at=9", "low: q p=1 at=0"),
    ("old: q at=1", "new: q at=2"),
    ("high: q p=1 at=2", "evicted-high: q p=1 at=3"),
    ("*low: q p=-1 at=9", "high: q p=9 at=0"),
    ("*high: q p=1", "*low: q"),
    ("a: q", "b: q"),
    ("10: q", "9: q"),  # UIDs are texts
    ("low: q p=-2147483647 at=0", "lowest: q p=-2147483648 at=0"),
]


def entry(text: str) -> tuple[WorkloadInfo, bool]:
    name, _, line = text.partition(": ")
    return aw.workload(name.removeprefix("*"), line), name.startswith("*")


@pytest.mark.parametrize(("first", "second"), ORDER)
def test_order(first: str, second: str) -> None:
    (one, one_sticky), (other, other_sticky) = entry(first), entry(second)
    assert place(one, sticky=one_sticky) < place(other, sticky=other_sticky)


WORKLOADS = st.builds(
    lambda uid, priority, at: aw.workload(uid, f"q p={priority} at={at}"),
    st.sampled_from("abc"),
    st.integers(-1, 1),
    st.integers(0, 2),
)


def rule(one: tuple[WorkloadInfo, bool], other: tuple[WorkloadInfo, bool]) -> int:
    """Compare two workloads by the rule of the order."""
    (mine, my_stick), (theirs, their_stick) = one, other
    if my_stick != their_stick:
        return -1 if my_stick else 1
    if mine.priority != theirs.priority:
        return -1 if mine.priority > theirs.priority else 1
    if mine.queued != theirs.queued:
        return -1 if mine.queued < theirs.queued else 1
    return (mine.uid > theirs.uid) - (mine.uid < theirs.uid)


@given(st.lists(st.tuples(WORKLOADS, st.booleans()), max_size=8))
def test_the_key_says_what_the_rule_says(entries: list[tuple[WorkloadInfo, bool]]) -> None:
    by_key = sorted(entries, key=lambda each: place(each[0], sticky=each[1]))
    by_rule = sorted(entries, key=cmp_to_key(rule))
    assert [place(one, sticky=stuck) for one, stuck in by_key] == [place(one, sticky=stuck) for one, stuck in by_rule]


def test_the_moment_of_the_queue_counts_not_that_of_creation() -> None:
    evicted, newer = aw.workload("a", "q at=5"), aw.workload("b", "q at=1")
    assert evicted.created == newer.created < newer.queued < evicted.queued - timedelta(seconds=3)
    assert place(newer) < place(evicted)
