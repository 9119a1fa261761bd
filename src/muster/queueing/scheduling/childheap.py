"""Find the best child of each node while the keys of children change.

Each node has a heap. An entry of the heap is void if its child has a newer entry. So a change costs the logarithm of
the number of children.
"""

from collections import defaultdict
from heapq import heappop, heappush
from typing import Any

from muster.queueing.quota.tree import Node

Key = tuple[Any, ...]


class ChildHeap:
    """The children of each node, sorted by key, the lowest first. The parent `None` has the roots as its children."""

    def __init__(self) -> None:
        self._current: dict[Node, int] = {}
        self._heaps: defaultdict[Node | None, list[tuple[Key, int, Node]]] = defaultdict(list)
        self._serial = 0

    def put(self, node: Node, key: Key | None) -> None:
        """Set the key of a node; None removes the node."""
        if key is None:
            self._current.pop(node, None)
            return
        self._serial += 1
        self._current[node] = self._serial
        heappush(self._heaps[node.parent], (key, self._serial, node))

    def best(self, parent: Node | None) -> Node | None:
        """Return the child with the lowest key; None if there is none."""
        heap = self._heaps[parent]
        while heap:
            _, serial, node = heap[0]
            if self._current.get(node) == serial:
                return node
            heappop(heap)
        return None
