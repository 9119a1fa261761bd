"""How long a plan of `benchmarks/admission.py` takes if every decision, write and look takes no time at all.

Quota and arrivals are not the only limits: a workload of high priority displaces others, whose work is lost, and those
of low priority may not use what is free only for a moment. This plays the decisions themselves, in virtual time.
"""

from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, WORKLOAD, ClusterQueue, Cohort, ResourceFlavor
from muster.queueing import convert, model
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling import cycle
from muster.queueing.scheduling.nomination import AdmissionSettings

_START = datetime(2026, 1, 1, tzinfo=UTC)


class Played:
    """A plan while it is played. `work` is of each workload: when it comes, its object, its queue, its run time."""

    def __init__(
        self, setup: list[tuple[Kind[Any], str, dict[str, Any]]], work: list[tuple[float, bytes, str, float]]
    ) -> None:
        self.evictions = 0
        self._tree, self._queues = Tree(), Queues()
        self._flavors: dict[str, model.FlavorSpec] = {}
        self._run: dict[str, float] = {}  # seconds
        self._numbers = count()
        self._events: list[tuple[float, int, model.WorkloadInfo]] = []  # one comes, or, if it holds quota, ends
        self._queues.set_namespace("default", {})
        for kind, _, document in setup:
            self._set_up(kind, document)
        for due, body, queue, seconds in work:
            created = _START + timedelta(seconds=due)
            obj = WORKLOAD.decode(body)
            workload = replace(
                convert.convert_workload(obj, queue), created=created, queued=created, uid=obj.metadata.name
            )
            self._run[workload.key] = seconds
            heappush(self._events, (due, next(self._numbers), workload))

    def _set_up(self, kind: Kind[Any], document: dict[str, Any]) -> None:
        if kind is RESOURCE_FLAVOR:
            flavor = convert.flavor_spec(msgspec.convert(document, ResourceFlavor))
            self._flavors[flavor.name] = flavor
        elif kind is COHORT:
            self._tree.set_cohort(convert.cohort_spec(msgspec.convert(document, Cohort)))
        elif kind is CLUSTER_QUEUE:
            spec = convert.queue_spec(msgspec.convert(document, ClusterQueue))
            self._tree.set_queue(spec)
            self._queues.set_queue(spec)

    def seconds(self) -> float:
        """When the last one ends."""
        now = 0.0
        while self._events:
            now, _, workload = heappop(self._events)
            if workload.usage is None:
                self._queues.add(workload)
            elif self._tree.holder(workload.key) is workload:
                self._free(workload)
            if not self._events or self._events[0][0] > now:
                self._admit(now)
        return now

    def _free(self, workload: model.WorkloadInfo) -> None:
        self._tree.release(workload)
        self._queues.flush(self._tree.queues[workload.queue], workload.usage)

    def _admit(self, now: float) -> None:
        moment = _START + timedelta(seconds=now)
        while self._queues.untried:
            outcome = cycle.run(self._tree, self._queues, self._flavors, AdmissionSettings(), moment)
            for admission in outcome.admitted:
                holder = admission.workload
                heappush(self._events, (now + self._run[holder.key], next(self._numbers), holder))
            for decision in outcome.preemptions:
                for victim in decision.victims:
                    if (current := self._tree.holder(victim.workload.key)) is not None:
                        self.evictions += 1
                        self._free(current)
                        self._queues.add(replace(current, usage=None, reserved=None, admitted=False))
