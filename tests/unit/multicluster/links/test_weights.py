"""What is kept of a worker weighs what its objects weigh as JSON, whatever came and went."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from muster.api.kueue import LOCAL_QUEUE, LocalQueue
from muster.multicluster.links.weights import Weights

names = st.sampled_from("abc")


def queue(name: str, behind: str) -> LocalQueue:
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterQueue": behind}}, LocalQueue
    )


@given(st.lists(st.tuples(names, st.none() | st.text("x", max_size=9))))
def test_after_any_history_the_weight_is_that_of_what_is_there(history: list[tuple[str, str | None]]) -> None:
    weights, there = Weights(LOCAL_QUEUE), dict[str, LocalQueue]()
    for name, behind in history:
        old, new = there.pop(name, None), queue(name, behind) if behind is not None else None
        if new is not None:
            there[name] = new
        weights.follow(old, new)
        assert len(weights) == len(there)
        assert weights.size == sum(len(LOCAL_QUEUE.encode(one)) for one in there.values())


def test_what_was_never_there_takes_nothing_along() -> None:
    weights = Weights(LOCAL_QUEUE)
    weights.follow(queue("a", "q"), None)
    assert (len(weights), weights.size) == (0, 0)
