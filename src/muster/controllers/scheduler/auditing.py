"""Checks regularly that what the scheduler believes of nodes and pods is what there is, alarms if not, and mends it."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from muster.api.core import NODE, Node, Pod
from muster.controllers.scheduler.roster import Roster
from muster.gang.nodes.audit import Difference, node_differs, pod_differs, rebuilt, rest_differs, sum_differs
from muster.runtime.events.recorder import Recorder
from muster.runtime.informer import Informer
from muster.runtime.metrics import Registry
from muster.runtime.objects import key_of, reference

T = TypeVar("T")

log = logging.getLogger(__name__)

# So many are looked at before others get a turn.
_SLICE = 200
# So many differences are told of one audit; the metric counts all.
_TOLD = 5


class Auditor:
    """Holds the roster's capacity against the nodes and pods as they were last seen."""

    def __init__(
        self, roster: Roster, nodes: Informer[Node], pods: Informer[Pod], recorder: Recorder, registry: Registry
    ) -> None:
        self._roster = roster
        self._nodes = nodes
        self._pods = pods
        self._recorder = recorder
        self._audits = registry.counter("muster_scheduler_audits_total", "The number of audits of the scheduler")
        self._differences = registry.counter(
            "muster_scheduler_audit_differences_total", "The number of differences that audits of the scheduler found"
        )

    async def audit(self) -> bool:
        """Whether all was right; it is afterwards. Between two slices events come, and are seen by both sides."""
        found = [*await _in_slices(self._nodes, self._of_node), *await _in_slices(self._pods, self._of_pod)]
        found += await _in_slices(self._nodes, self._of_sum)
        # What is looked at as a whole is looked at without a pause.
        capacity, there = self._roster.capacity, {pod.metadata.uid for pod in self._pods.all()}
        gone = [uid for uid, _ in capacity.guests.items() if uid not in there]
        found += [one for uid in gone if (one := pod_differs(capacity, uid, None)) is not None]
        names = {node.metadata.name for node in self._nodes.all()}
        found += [Difference(name, "the node is recorded and gone") for name in self._recorded() if name not in names]
        found += rest_differs(capacity)
        self._audits.inc()
        if found:
            self._alarm(found)
            self._mend()
        return not found

    def _of_node(self, node: Node) -> Difference | None:
        return node_differs(self._roster.capacity, node)

    def _of_pod(self, pod: Pod) -> Difference | None:
        if self._roster.is_assumed(pod):
            return None
        return pod_differs(self._roster.capacity, pod.metadata.uid, self._roster.seat(pod))

    def _of_sum(self, node: Node) -> Difference | None:
        return sum_differs(self._roster.capacity, node.metadata.name)

    def _recorded(self) -> Iterator[str]:
        return (name for name in self._roster.capacity.names if name is not None)

    def _alarm(self, found: Sequence[Difference]) -> None:
        self._differences.inc(len(found))
        told = "; ".join(f"{one.node}: {one.text}" for one in found[:_TOLD])
        log.error("what is recorded of nodes and pods is made anew, as %d things were wrong: %s", len(found), told)
        texts = {one.node: one.text for one in reversed(found)}
        for name, text in list(texts.items())[:_TOLD]:
            if (node := self._nodes.get(name)) is not None:
                message = f"What the scheduler recorded of this node was wrong and is made anew: {text}"
                self._recorder.event(reference(NODE, node), "Warning", "CapacityMended", message)

    def _mend(self) -> None:
        roster = self._roster
        seats = {}
        for pod in self._pods.all():
            uid = pod.metadata.uid
            seat = roster.capacity.assigned(uid) if roster.is_assumed(pod) else roster.seat(pod)
            if seat is not None:
                seats[uid] = seat
        roster.capacity.become(rebuilt(roster.capacity, self._nodes.all(), seats))
        roster.renew()


async def _in_slices(informer: Informer[T], differs: Callable[[T], Difference | None]) -> list[Difference]:
    found = []
    for number, key in enumerate([key_of(one) for one in informer.all()], start=1):
        current = informer.get(key)
        if current is not None and (difference := differs(current)) is not None:
            found.append(difference)
        if number % _SLICE == 0:
            await asyncio.sleep(0)
    return found
