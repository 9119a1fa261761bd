"""Tests that the index of holders equals a sorted list, after any history."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.queueing.worlds import queue_spec, workload

from muster.queueing.model import FlavorResource, WorkloadInfo
from muster.queueing.quota.holders import rank
from muster.queueing.quota.tree import Tree

lines = st.builds(
    "q cpu={} gpu={} p={} since={}{}".format,
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(-2, 2),
    st.integers(0, 2),
    st.sampled_from(["", "", " evicted"]),
)
FRS = [FlavorResource("default", "cpu"), FlavorResource("default", "gpu")]
# A workload with a line holds quota in that state, one with None gives it back.
steps = st.lists(st.tuples(st.integers(0, 5), lines | st.none()), max_size=30)


@given(steps, st.integers(-3, 3))
def test_holders(history: list[tuple[int, str | None]], limit: int):
    tree, held = Tree(), dict[str, WorkloadInfo]()
    node = tree.set_queue(queue_spec("q", "cpu=4"))
    for number, line in history:
        state = workload(f"w{number}", line or "q")
        if line is None:
            tree.release(state)
            held.pop(state.key, None)
        else:
            tree.hold(state)
            held[state.key] = state
    below = [state for state in sorted(held.values(), key=rank) if state.priority < limit]
    for evicted in (True, False):
        assert list(node.held.below(limit, evicted=evicted)) == [one for one in below if one.evicted is evicted]
    total: dict[object, int] = {}
    for one in below:
        for fr, amount in (one.usage or {}).items():
            total[fr] = total.get(fr, 0) + amount
    assert node.held.usage_below(limit) == {fr: amount for fr, amount in total.items() if amount}
    for fr in FRS:
        assert node.held.has_any_below(limit, {fr}) == bool(total.get(fr))
    assert node.held.evicted == sum(one.evicted for one in held.values())
