"""Try changes of usage in the quota tree, which the end of a `with` block undoes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from muster.queueing.model import Usage
from muster.queueing.quota.tree import Node


@contextmanager
def assume_usage(*, more: Iterable[tuple[Node, Usage]] = (), less: Iterable[tuple[Node, Usage]] = ()) -> Iterator[None]:
    """Change the usage of ClusterQueues until the end of the `with` block: add `more`, and remove `less`."""
    added, removed = tuple(more), tuple(less)
    for node, usage in removed:
        node.remove(usage)
    for node, usage in added:
        node.add(usage)
    try:
        yield
    finally:
        for node, usage in added:
            node.remove(usage)
        for node, usage in removed:
            node.add(usage)
