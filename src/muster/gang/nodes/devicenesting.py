"""Tracks which selections of devices lie within others, updated node by node.

A selection lies within another one if some node has devices of it and each of its devices, on every node, is also a
device of the other. Computing that for all nodes after each change would take seconds on thousands of nodes.
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

from muster.gang.nodes.devicechoice import DeviceId

# Returns the devices of a selection on a node.
MatchingOn: TypeAlias = Callable[[str, str], frozenset[DeviceId]]


class Nesting:
    """Counts of the nodes for and against the nesting of each requested pair of selections.

    matching_on: returns the devices of a selection on a node.
    """

    def __init__(self, matching_on: MatchingOn) -> None:
        self._matching_on = matching_on
        self._having: dict[str, int] = {}  # how many nodes have devices of a selection
        # The number of nodes on which the first does not lie within the second.
        self._against: dict[tuple[str, str], int] = {}

    def is_within(self, narrow: str, wide: str, nodes: Collection[str]) -> bool:
        """Return whether one selection lies within another one. nodes: all nodes that have devices."""
        if narrow not in self._having:
            self._having[narrow] = sum(bool(self._matching_on(narrow, node)) for node in nodes)
        if (narrow, wide) not in self._against:
            self._against[narrow, wide] = sum(self._is_against(narrow, wide, node) for node in nodes)
        return self._having[narrow] > 0 and not self._against[narrow, wide]

    def add(self, node: str, sign: int = 1) -> None:
        """Count a node, or with -1 uncount it: call before its devices change, and after."""
        for narrow in self._having:
            self._having[narrow] += sign * bool(self._matching_on(narrow, node))
        for narrow, wide in self._against:
            self._against[narrow, wide] += sign * self._is_against(narrow, wide, node)

    def forget(self) -> None:
        """Drop all counts, to count again on request: the matching devices or the followed selections have changed."""
        self._having.clear()
        self._against.clear()

    def _is_against(self, narrow: str, wide: str, node: str) -> bool:
        return not self._matching_on(narrow, node) <= self._matching_on(wide, node)
