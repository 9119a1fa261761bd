"""Tests that the sums equal a new count of all holders, after any history."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.queueing.elastic.growth import growth_by
from muster.queueing.model import FlavorResource, QueueSpec, WorkloadInfo
from muster.queueing.quota.tallies import WorkloadSums
from muster.queueing.quota.tree import Tree

START = datetime(2026, 1, 1, tzinfo=UTC)
CPU, GPU = FlavorResource("f", "cpu"), FlavorResource("f", "gpu")

workloads = st.builds(
    WorkloadInfo,
    key=st.sampled_from(["ns/a", "ns/b", "ns/c"]),
    uid=st.just("u"),
    queue=st.sampled_from(["x", "y"]),
    local_queue=st.sampled_from(["ns/l", "ns/m"]),
    priority=st.integers(0, 1),
    created=st.just(START),
    queued=st.just(START),
    podsets=st.just(()),
    usage=st.dictionaries(st.sampled_from([CPU, GPU]), st.integers(0, 5)),
    admitted=st.booleans(),
)
holders = st.one_of(workloads, workloads.map(lambda one: replace(growth_by(one, ()), usage=one.usage)))


def numbers(tally: WorkloadSums) -> tuple[object, ...]:
    return tally.reserving, tally.admitted, tally.reserved, tally.used


def count_again(workloads: list[WorkloadInfo]) -> tuple[object, ...]:
    whole = [one for one in workloads if one.whole == one.key]
    reserved: Counter[FlavorResource] = Counter()
    used: Counter[FlavorResource] = Counter()
    for one in workloads:
        reserved.update(one.usage or {})
        if one.admitted:
            used.update(one.usage or {})
    return len(whole), sum(one.admitted for one in whole), dict(+reserved), dict(+used)


@given(st.lists(st.tuples(holders, st.booleans()), max_size=30))
def test_sums(history: list[tuple[WorkloadInfo, bool]]) -> None:
    tree = Tree()
    for name in ("x", "y"):
        tree.set_queue(QueueSpec(name))
    for workload, holds in history:
        (tree.hold if holds else tree.release)(workload)
    for node in tree.queues.values():
        here = list(node.workloads.values())
        assert numbers(node.tallies.total) == count_again(here)
        assert set(node.tallies.local) == {one.local_queue for one in here}
        for name in ("ns/l", "ns/m"):
            assert numbers(node.tallies.of(name)) == count_again([one for one in here if one.local_queue == name])
