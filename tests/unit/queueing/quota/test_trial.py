"""Tests of changes of usage that last as long as a context."""

import pytest

from muster.queueing.model import FlavorResource, QueueSpec, Quota
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.quota.trial import assume_usage

GPU = FlavorResource("uno", "gpu")


def make_queues() -> tuple[Node, Node]:
    """Return two ClusterQueues of one Cohort, with 5 of 10 GPUs used in the first."""
    tree = Tree()
    first, second = (tree.set_queue(QueueSpec(name, cohort="team", quotas={GPU: Quota(10)})) for name in "ab")
    first.add({GPU: 5})
    return first, second


def test_usage_counts_within_the_context_and_no_longer() -> None:
    first, second = make_queues()
    with assume_usage(more=[(second, {GPU: 12})], less=[(first, {GPU: 5})]):
        assert (first.usage[GPU], second.usage[GPU]) == (0, 12)
        assert second.available(GPU) == 8
    assert (first.usage[GPU], second.usage[GPU], second.available(GPU)) == (5, 0, 15)


def test_an_error_within_the_context_leaves_no_trace() -> None:
    first, second = make_queues()
    with pytest.raises(ValueError, match="no fit"), assume_usage(more=((node, {GPU: 7}) for node in (first, second))):
        raise ValueError("no fit")
    assert (first.usage[GPU], second.usage[GPU], second.available(GPU)) == (5, 0, 15)
