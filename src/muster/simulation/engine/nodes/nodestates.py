"""Keep which nodes of a simulation exist, are lost, or are cordoned, however many causes a node has for that."""

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

    A node that two changes made unusable is usable again when both have ended.
    """

    def __init__(self, nodes: Iterable[Node], later: Iterable[Node], pools: Mapping[str, Sequence[str]]) -> None:
        """Start with some nodes.

        later: the nodes that are added when pools grow. pools: the names of all nodes of each pool.
        """
        self._nodes = {node.metadata.name: node for node in nodes}
        self._present = dict.fromkeys(self._nodes)
        self._nodes |= {node.metadata.name: node for node in later}
        self._pools = pools
        self._losses: Counter[str] = Counter()
        self._cordons: Counter[str] = Counter()

    def get(self, name: str) -> Node | None:
        """Return a node as the scheduler sees it now; None if it does not exist."""
        if name not in self._present:
            return None
        node = self._nodes[name]
        if self._losses[name]:
            node = replace(node, status=replace(node.status, conditions=_LOST))
        if self._cordons[name]:
            node = replace(node, spec=replace(node.spec, unschedulable=True))
        return node

    def describe(self, name: str) -> NodeState:
        """Return the state of a node in one word."""
        if name not in self._present:
            return "gone"
        return "lost" if self._losses[name] else "cordoned" if self._cordons[name] else "ready"

    def get_usual(self, name: str) -> Node:
        """Return a node as it is while nothing is wrong."""
        return self._nodes[name]

    def choose(self, choice: NodeChoice, count: int | None, random: Random) -> list[str]:
        """Return the names of the existing nodes that a choice selects.

        count: how many to draw at random from those that are not lost (all if there are fewer); None: return all.
        """
        names = choose_nodes(choice, {name: self._nodes[name] for name in self._present}, self._pools)
        if count is None:
            return names
        names = [name for name in names if not self._losses[name]]
        if count >= len(names):
            return names
        return [names[index] for index in sorted(random.sample(range(len(names)), count))]

    def lose(self, name: str) -> bool:
        """Add a reason why a node is lost. Return True if the node exists and had no such reason before."""
        return self._count(self._losses, name, 1) == 1 and name in self._present

    def restore(self, name: str) -> bool:
        """Remove a reason why a node was lost. Return True if the node exists and has no such reason any more."""
        return self._count(self._losses, name, -1) == 0 and name in self._present

    def cordon(self, name: str) -> bool:
        """Add a reason why a node is cordoned. Return True if the node exists and had no such reason before."""
        return self._count(self._cordons, name, 1) == 1 and name in self._present

    def uncordon(self, name: str) -> bool:
        """Remove a reason why a node was cordoned. Return True if the node exists and has no such reason any more."""
        return self._count(self._cordons, name, -1) == 0 and name in self._present

    def scale(self, pool: str, count: int) -> Iterator[str]:
        """Set the number of existing nodes of a pool, and yield the nodes that this adds or removes, as it does so."""
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
