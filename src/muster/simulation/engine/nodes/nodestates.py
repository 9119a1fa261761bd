"""Track which nodes of a simulation exist, are lost, or are cordoned, with any number of causes per node."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

from msgspec.structs import replace

from muster.api.core import Node, NodeCondition
from muster.simulation.outcome.record import NodeState
from muster.simulation.scenario.changes import choose_nodes
from muster.simulation.scenario.model import NodeChoice

_LOST = (NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown"),)


class NodeStates:
    """The states of the simulated nodes.

    A node that two changes made unusable becomes usable when both have ended.
    """

    def __init__(self, nodes: Iterable[Node], later: Iterable[Node], pools: Mapping[str, Sequence[str]]) -> None:
        """Start with some nodes.

        later: the nodes that are added when pools grow.
        pools: the names of all nodes of each pool.
        """
        self._nodes = {node.metadata.name: node for node in nodes}
        self._present = dict.fromkeys(self._nodes)
        self._nodes |= {node.metadata.name: node for node in later}
        self._pools = pools
        self._losses: Counter[str] = Counter()
        self._cordons: Counter[str] = Counter()

    def get(self, name: str) -> Node | None:
        """Return a node in its current state, for the scheduler; None if it does not exist."""
        if name not in self._present:
            return None
        node = self._nodes[name]
        if self._losses[name]:
            node = replace(node, status=replace(node.status, conditions=_LOST))
        if self._cordons[name]:
            node = replace(node, spec=replace(node.spec, unschedulable=True))
        return node

    def describe(self, name: str) -> NodeState:
        """Return the state of a node as a word."""
        if name not in self._present:
            return "gone"
        return "lost" if self._losses[name] else "cordoned" if self._cordons[name] else "ready"

    def get_usual(self, name: str) -> Node:
        """Return a node in its state without any failure or cordon."""
        return self._nodes[name]

    def choose(self, choice: NodeChoice, count: int | None, random: Random) -> list[str]:
        """Return the names of the existing nodes that a choice selects.

        count: the number of nodes to draw at random from those that are not lost (fewer if there are fewer); None for
        all.
        """
        names = choose_nodes(choice, {name: self._nodes[name] for name in self._present}, self._pools)
        if count is None:
            return names
        names = [name for name in names if not self._losses[name]]
        if count >= len(names):
            return names
        return [names[index] for index in sorted(random.sample(range(len(names)), count))]

    def lose(self, name: str) -> bool:
        """Add a cause for which a node is lost. Return whether the node exists and had no such cause before."""
        return self._count(self._losses, name, 1) == 1 and name in self._present

    def restore(self, name: str) -> bool:
        """Remove a cause for which a node was lost. Return whether the node exists and has no such cause any more."""
        return self._count(self._losses, name, -1) == 0 and name in self._present

    def cordon(self, name: str) -> bool:
        """Add a cause for which a node is cordoned. Return whether the node exists and had no such cause before."""
        return self._count(self._cordons, name, 1) == 1 and name in self._present

    def uncordon(self, name: str) -> bool:
        """Remove a cause for which a node was cordoned.

        Return whether the node exists and has no such cause any more.
        """
        return self._count(self._cordons, name, -1) == 0 and name in self._present

    def scale(self, pool: str, count: int) -> Iterator[str]:
        """Set the number of existing nodes of a pool; yield each node that is added or removed."""
        for number, name in enumerate(self._pools[pool]):
            if (number < count) != (name in self._present):
                if number < count:
                    self._present[name] = None
                else:
                    del self._present[name]
                yield name

    @staticmethod
    def _count(causes: Counter[str], name: str, sign: int) -> int:
        causes[name] += sign
        if not causes[name]:
            del causes[name]
            return 0
        return causes[name]
