"""Forecast the admission of a workload created now, by running the admission cycle on observed objects. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from muster.api.kueue import Workload
from muster.insight.forecasts.forecast import Need, Outlook, Snapshot
from muster.insight.quota.queues import explain_closed, explain_inactive
from muster.insight.quota.state import owner_uids, say_once
from muster.queueing.model import Assignment, Places
from muster.queueing.scheduling import cycle
from muster.queueing.scheduling.estimate import StartEstimate
from muster.runtime.objects import key_of

# The maximum number of cycles. More are needed only if workloads preempt each other forever.
_MOST_CYCLES = 200


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """The forecast of a workload's admission: the quota it would get and its victims, or why it waits.

    flavors: the flavors that it would get, by podset and resource.
    counts: the number of pods of each podset that would run.
    places: the topology domains of the pods, by podset, if its flavor has a Topology.
    victims: the names of the workloads that would be evicted.
    displaced: the UIDs of the victims' jobs.
    estimate: when the workload gets quota, if it does not get quota now.
    """

    queue: str
    cluster_queue: str
    verdict: Literal["starts", "preempts", "waits"]
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, Places] = field(default_factory=dict)
    victims: Sequence[str] = ()
    displaced: frozenset[str] = frozenset()
    reason: str = ""
    needs: Sequence[Need] = ()
    estimate: StartEstimate | None = None


def plan_quota(snapshot: Snapshot, workload: Workload, cluster_queue: str, now: datetime) -> QuotaPlan:
    """Forecast the admission of a workload that waits in the snapshot, without any write.

    cluster_queue: the ClusterQueue of its LocalQueue; "" if that LocalQueue does not exist. In that case the workload
    waits, with a reason.
    """
    meta, queue = workload.metadata, workload.spec.queue_name
    plan = QuotaPlan(queue, cluster_queue, "waits")
    if not cluster_queue:
        return replace(plan, reason=f"there is no LocalQueue {queue} in namespace {meta.namespace}")
    outlook = Outlook(snapshot, cluster_queue, meta.namespace, now)
    if not outlook.exists:
        return replace(plan, reason=f"there is no ClusterQueue {cluster_queue}")
    key, said = key_of(workload), ""
    decision: cycle.CycleAdmission | cycle.CyclePreemption | None = None
    for _ in range(_MOST_CYCLES):
        outcome = cycle.run(outlook.tree, outlook.queues, outlook.flavors, outlook.settings, now)
        decided: list[cycle.CycleAdmission | cycle.CyclePreemption] = [*outcome.admitted, *outcome.preemptions]
        decision = next((one for one in decided if one.workload.key == key), None)
        said = next((one.message for one in outcome.pending if one.workload.key == key), said)
        if decision is not None or not outlook.queues.untried:
            break
    if isinstance(decision, cycle.CycleAdmission):
        return replace(_plan_given_quota(plan, decision.assignment), verdict="starts")
    if isinstance(decision, cycle.CyclePreemption):
        keys = {victim.workload.key for victim in decision.victims}
        uids = frozenset(uid for one in snapshot.workloads if key_of(one) in keys for uid in owner_uids(one))
        names = sorted(outlook.names[one] for one in keys)
        return replace(_plan_given_quota(plan, decision.assignment), verdict="preempts", victims=names, displaced=uids)
    fresh = Outlook(snapshot, cluster_queue, meta.namespace, now)
    needs = fresh.find_needs(workload, cluster_queue)
    reason = say_once(said) or _describe_closed(snapshot, cluster_queue)
    return replace(plan, reason=reason, needs=needs, estimate=fresh.estimate(key))


def _describe_closed(snapshot: Snapshot, cluster_queue: str) -> str:
    """Return a sentence that a ClusterQueue is inactive, with the reason; "" if it is active."""
    queue = next(one for one in snapshot.cluster_queues if one.metadata.name == cluster_queue)
    if not explain_inactive(queue.status.conditions):
        return ""
    return explain_closed(f"ClusterQueue {cluster_queue} is inactive", {cluster_queue: queue})


def _plan_given_quota(plan: QuotaPlan, assignment: Assignment) -> QuotaPlan:
    flavors = {
        podset.name: {resource: choice.flavor for resource, choice in sorted(podset.flavors.items())}
        for podset in assignment.podsets
    }
    counts = {podset.name: podset.count for podset in assignment.podsets}
    return replace(plan, flavors=flavors, counts=counts, places={one.podset: one for one in assignment.places})
