"""Let the changes of a scenario happen: nodes break, are drained, come and go, queues change, the engine restarts.

What a change means for jobs is decided by the engine, which is told which gangs a node took with it.
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
    """The nodes of a simulation, as changes need them."""

    def set_node(self, node: Node, usual: Node) -> None:
        """Add or change a node. usual: the node while nothing is wrong."""
        ...

    def remove_node(self, name: str) -> None:
        """Remove a node. The caller has removed all pods from it before."""
        ...


class Changed(Protocol):
    """The part of a simulation's engine that changes of nodes and queues call."""

    @property
    def record(self) -> SimulationRecord:
        """The record of the jobs so far, which has the current time."""
        ...

    @property
    def machines(self) -> ChangedNodes | None:
        """The nodes; None if quotas alone decide."""
        ...

    def interrupt_on(self, node: str) -> None:
        """Interrupt every gang with pods on a node: it keeps its quota and requests other nodes."""
        ...

    def note_capacity(self) -> None:
        """Record the total capacity of the nodes from now on."""
        ...

    def redefine(self, definition: Definition) -> None:
        """Change a queue or a Cohort to this definition, and evict the jobs that a stopped queue drains."""
        ...

    def stop(self) -> None:
        """Stop all decisions until `restart`."""
        ...

    def restart(self) -> None:
        """Start to decide again after `stop`, without the refusals and reservations that a restarted engine forgets."""
        ...


class Changes:
    """The changes of a scenario. Each change plans the next one."""

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
        # Changes of one moment happen in the order of the list.
        self._events: Iterator[_Event] = heapq.merge(*sources, key=attrgetter("at", "number"))
        self._last_redefinition = max((one.at for one in site.redefinitions), default=-1.0)
        self._coming = False  # whether another change is to come
        self._ends = 0  # how many changes are to end
        self._stops = 0  # how many restarts are under way

    @property
    def redefines_later(self) -> bool:
        """Whether a change of a queue or a Cohort is still to come."""
        return self._engine.record.now < self._last_redefinition

    @property
    def has_more(self) -> bool:
        """Whether another change, or the end of one, is to come."""
        return self._coming or self._ends > 0

    def plan_next(self) -> None:
        """Plan the next change, if there is one.

        It plans the one after it when it happens, because random failures never end.
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
            self._scale(change.scale.pool, change.scale.count)
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

    # Nodes. All those of one change go before anything is placed anew.

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

    def _scale(self, pool: str, count: int) -> None:
        self._show(list(self._states.scale(pool, count)), empty=True)

    def _show(self, nodes: Iterable[str], *, empty: bool = False) -> None:
        """Give the scheduler the present state of some nodes, or remove them if they no longer exist.

        The states and the new capacity are recorded. empty: whether to interrupt the pods on these nodes first.
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
