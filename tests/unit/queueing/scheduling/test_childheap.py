"""Tests that the best child of each node is the one with the lowest key, after any history."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.queueing.worlds import tree_of

from muster.queueing.scheduling.childheap import ChildHeap

_TREE = {"cohorts": {"l": "in=top", "r": "in=top"}, "queues": {"a": "in=l", "b": "in=l", "d": "in=l", "e": "in=r"}}
names = ["a", "b", "d", "e", "l", "r", "top"]


@given(st.lists(st.tuples(st.sampled_from(names), st.none() | st.integers(0, 9)), max_size=40))
def test_the_best_child_is_the_one_with_the_lowest_key(history: list[tuple[str, int | None]]):
    tree = tree_of(_TREE)
    every = {**tree.queues, **tree.cohorts}
    heap, keys = ChildHeap(), dict[str, tuple[int, str]]()
    for name, number in history:
        if number is None:
            keys.pop(name, None)
        else:
            keys[name] = (number, name)
        heap.put(every[name], keys.get(name))
        for parent in (None, tree.cohorts["top"], tree.cohorts["l"], tree.cohorts["r"]):
            children = [name for name in keys if every[name].parent is parent]
            best = min(children, key=lambda name: keys[name]) if children else None
            assert heap.best(parent) is (every[best] if best else None)
