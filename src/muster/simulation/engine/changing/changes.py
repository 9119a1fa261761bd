"""Execute the changes of a scenario: nodes fail, are drained, added or removed, queues change, the engine restarts.

The engine decides what a change means for jobs. It is told which gangs had pods on a lost node.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from random import Random
from typing import Protocol, TypeAlias

from muster.api.core import Node
from muster.simulation.engine.agenda import EventAgenda, Rank
from muster.simulation.engine.changing.redefinitions import Definition, Redefinition
from muster.simulation.engine.nodes.nodestates import NodeStates
from muster.simulation.engine.site import Site
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.scenario.changes import Moment, choose_nodes, find_action, list_moments
from muster.simulation.scenario.model import Outage
from muster.simulation.scenario.reading import Reading

_Event: TypeAlias = Moment | Redefinition


class ChangedNodes(Protocol):
    """The interface to the nodes of a simulation that changes need."""

    def set_node(self, node: Node, usual: Node) -> None:
        """Add or update a node.

        usual: the node in its state without any failure or cordon.
        """
        ...

    def remove_node(self, name: str) -> None:
        """Remove a node. The caller has already removed all pods from it."""
        ...


class Changed(Protocol):
    """The interface to the engine of a simulation that changes of nodes and queues need."""

    @property
    def record(self) -> SimulationRecord:
        """The record of the jobs so far, which includes the current time."""
        ...

    @property
    def machines(self) -> ChangedNodes | None:
        """The nodes; None if the simulation has only quotas."""
        ...

    def interrupt_on(self, node: str) -> None:
        """Interrupt each gang with pods on a node: the gang keeps its quota and requests other nodes."""
        ...

    def note_capacity(self) -> None:
        """Record the total capacity of the nodes as it is from now on."""
        ...

    def redefine(self, definition: Definition) -> None:
        """Replace the definition of a queue or Cohort, and evict the jobs that a stopped queue drains."""
        ...

    def stop(self) -> None:
        """Stop all decisions until `restart`."""
        ...

    def restart(self) -> None:
        """Resume decisions after `stop`, without the refusals and reservations that a restarted engine has lost."""
        ...


class Changes:
    """The changes of a scenario. Each change plans the next one when it is executed."""

    def __init__(self, reading: Reading, site: Site, agenda: EventAgenda, engine: Changed) -> None:
        self._spec = reading.scenario.spec
        self._agenda = agenda
        self._engine = engine
        self._states = NodeStates(site.nodes, site.later_nodes, site.pools)
        nodes = {node.metadata.name: node for node in (*site.nodes, *site.later_nodes)}
        failing = {
            number: choose_nodes(change.fail, nodes, site.pools)
            for number, change in enumerate(self._spec.changes)
            if change.fail is not None
        }
        sources: tuple[Iterable[_Event], ...] = (list_moments(reading, failing), site.redefinitions)
        # Changes at the same time are executed in the order of the list.
        self._events: Iterator[_Event] = heapq.merge(*sources, key=attrgetter("at", "number"))
        self._last_redefinition = max((one.at for one in site.redefinitions), default=-1.0)
        self._coming = False  # whether another change is planned
        self._ends = 0  # the number of changes that have started and not ended
        self._stops = 0  # the number of engine restarts in progress

    @property
    def redefines_later(self) -> bool:
        """Whether a change of a queue or a Cohort is still planned."""
        return self._engine.record.now < self._last_redefinition

    @property
    def has_more(self) -> bool:
        """Whether another change, or the end of a change, is planned."""
        return self._coming or self._ends > 0

    def plan_next(self) -> None:
        """Plan the next change, if there is one.

        Only one change is planned at a time, because random failures never end.
        """
        event = next(self._events, None)
        self._coming = event is not None
        if event is not None:
            self._agenda.plan(event.at, Rank.CHANGE, partial(self._happen, event))

    def _happen(self, event: _Event) -> None:
        self.plan_next()
        if isinstance(event, Redefinition):
            self._engine.redefine(event.definition)
            return
        change = self._spec.changes[event.number]
        name, action = find_action(change)
        if change.fail is not None:
            (self._restore if event.returns else self._lose)((event.node,))
        elif change.scale is not None:
            self._scale_pool(change.scale.pool, change.scale.count)
        elif isinstance(action, Outage):
            random = Random(f"{self._spec.seed}/changes/{event.number}/{event.at}")
            nodes = self._states.choose(action, action.count, random)
            (self._lose if name == "lose" else partial(self._cordon, drains=name == "drain"))(nodes)
            if event.lasts is not None:
                self._plan_end(event.lasts, partial(self._restore if name == "lose" else self._uncordon, nodes))
        else:
            assert event.lasts is not None, "a restart lasts some time"
            self._stop(event.lasts)

    def _plan_end(self, lasts: float, end: Callable[[], None]) -> None:
        self._ends += 1
        self._agenda.plan(self._engine.record.now + lasts, Rank.CHANGE, partial(self._finish, end))

    def _finish(self, end: Callable[[], None]) -> None:
        self._ends -= 1
        end()

    # Nodes. All nodes of one change are lost before any pods are placed again.

    def _lose(self, nodes: Iterable[str]) -> None:
        lost = [name for name in nodes if self._states.lose(name)]
        self._show(lost, empty=True)

    def _restore(self, nodes: Iterable[str]) -> None:
        self._show([name for name in nodes if self._states.restore(name)])

    def _cordon(self, nodes: Iterable[str], *, drains: bool) -> None:
        nodes = list(nodes)
        self._show([name for name in nodes if self._states.cordon(name)])
        if drains:
            self._interrupt_on(nodes)

    def _uncordon(self, nodes: Iterable[str]) -> None:
        self._show([name for name in nodes if self._states.uncordon(name)])

    def _scale_pool(self, pool: str, count: int) -> None:
        changed = list(self._states.scale(pool, count))
        self._interrupt_on(name for name in changed if self._states.get(name) is None)
        self._show(changed)

    def _show(self, nodes: Iterable[str], *, empty: bool = False) -> None:
        """Report the current state of some nodes to the scheduler; remove nodes that no longer exist.

        empty: whether to interrupt the pods on these nodes first.

        The states and the new capacity are recorded.
        """
        machines = self._engine.machines
        assert machines is not None, "a scenario without nodes has no changes of nodes"
        if empty:
            self._interrupt_on(nodes)
        for name in nodes:
            node = self._states.get(name)
            if node is None:
                machines.remove_node(name)
            else:
                machines.set_node(node, self._states.get_usual(name))
            self._engine.record.change_node(name, self._states.describe(name))
        self._engine.note_capacity()

    def _interrupt_on(self, nodes: Iterable[str]) -> None:
        for name in nodes:
            self._engine.interrupt_on(name)

    # The engine.

    def _stop(self, lasts: float) -> None:
        self._stops += 1
        self._engine.stop()
        self._plan_end(lasts, self._start)

    def _start(self) -> None:
        self._stops -= 1
        if not self._stops:
            self._engine.restart()
