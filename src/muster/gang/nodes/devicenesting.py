"""Track which selections of devices are subsets of other selections, updated node by node.

A selection is a DeviceClass with selectors; it matches a set of devices on each node. A narrow selection is a subset of
a wide one if it matches a device on some node, and if on every node the wide one matches each device that the narrow
one matches. Computing that for all nodes after each change would take seconds with thousands of nodes.
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

from muster.gang.nodes.devicechoice import DeviceId

# Returns the devices that a selection matches on a node.
MatchingOn: TypeAlias = Callable[[str, str], frozenset[DeviceId]]


class Nesting:
    """Counters from which it follows, for each queried pair of selections, whether the first is a subset of the second.

    There are two counters: the nodes on which the narrow selection matches devices, and the nodes on which the wide
    selection misses some of these devices.

    matching_on: returns the devices that a selection matches on a node.
    """

    def __init__(self, matching_on: MatchingOn) -> None:
        self._matching_on = matching_on
        self._having: dict[str, int] = {}  # the number of nodes on which each selection matches devices
        # By narrow and wide selection: the number of nodes on which the narrow one is no subset.
        self._against: dict[tuple[str, str], int] = {}

    def is_within(self, narrow: str, wide: str, nodes: Collection[str]) -> bool:
        """Return whether the narrow selection is a subset of the wide one.

        nodes: all nodes that have devices.
        """
        if narrow not in self._having:
            self._having[narrow] = sum(bool(self._matching_on(narrow, node)) for node in nodes)
        if (narrow, wide) not in self._against:
            self._against[narrow, wide] = sum(self._is_against(narrow, wide, node) for node in nodes)
        return self._having[narrow] > 0 and not self._against[narrow, wide]

    def add(self, node: str, sign: int = 1) -> None:
        """Count a node, or stop counting it (sign -1).

        Stop counting a node before its devices change, and count it again afterwards.
        """
        for narrow in self._having:
            self._having[narrow] += sign * bool(self._matching_on(narrow, node))
        for narrow, wide in self._against:
            self._against[narrow, wide] += sign * self._is_against(narrow, wide, node)

    def forget(self) -> None:
        """Clear all counters. To be called when selections change; the next `is_within` counts again."""
        self._having.clear()
        self._against.clear()

    def _is_against(self, narrow: str, wide: str, node: str) -> bool:
        return not self._matching_on(narrow, node) <= self._matching_on(wide, node)
