"""Make records of the decisions of admission, from the outcome of a cycle or from the plan for one workload.

The amounts in a record are the amounts at the end of its cycle, after all its admissions.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from muster.api.kueue.names import EVICTED_DUE_TO
from muster.api.ours.decisions import Amount, Decision, Other, Subject, What
from muster.queueing.model import FlavorResource, PodSet, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.cycle import CycleOutcome, CyclePreemption
from muster.queueing.workload.lifecycle import LifecyclePlan

# Returns the job to which a workload belongs.
FindSubject = Callable[[WorkloadInfo], Subject]
# Returns whether this decision differs from the last one recorded for the same job and rule.
IsNews = Callable[[Subject, What, str], bool]

# The maximum number of other jobs, and of amounts, in one record.
MOST_OTHERS = 20
MOST_AMOUNTS = 16


def describe_cycle(
    outcome: CycleOutcome, tree: Tree, find_subject: FindSubject, is_news: IsNews, now: datetime
) -> Iterator[Decision]:
    """Yield the records of a cycle: of admissions, preemptors and their victims, and workloads that wait.

    A preemptor for which elastic workloads shrink has a record without victims. A workload that waits for the same
    reason as before has none.

    find_subject: returns the job to which a workload belongs.
    is_news: returns whether a decision differs from the last one about the same job.
    """
    for admission in outcome.admitted:
        workload, subject = admission.workload, find_subject(admission.workload)
        yield Decision(
            now,
            "QuotaReserved",
            subject.job,
            subject.uid,
            workload.queue,
            rule="Growth" if workload.growth_of else "",
            waited=max(0.0, (now - workload.queued).total_seconds()),
            priority=workload.priority,
            amounts=_measure_amounts(tree.queues.get(workload.queue), admission.assignment.usage),
            pods=sum(podset.count for podset in admission.assignment.podsets),
        )
    for preemption in outcome.preemptions:
        yield from _describe_preemption(preemption, tree, find_subject, now)
    for preemption in outcome.spared:
        yield _describe_preemptor(preemption, tree, find_subject, "Shrinking", now)
    for pending in outcome.pending:
        workload, subject = pending.workload, find_subject(pending.workload)
        if is_news(subject, "Waiting", pending.reason):
            node = tree.queues.get(workload.queue)
            yield Decision(
                now,
                "Waiting",
                subject.job,
                subject.uid,
                workload.queue,
                pending.reason,
                pending.message,
                priority=workload.priority,
                amounts=_measure_amounts(node, _list_requests(node, workload.podsets)),
                pods=sum(podset.count for podset in workload.podsets),
            )


def _describe_preemption(
    preemption: CyclePreemption, tree: Tree, find_subject: FindSubject, now: datetime
) -> Iterator[Decision]:
    """Yield the record of a preemptor, then the record of each victim that is not being evicted already."""
    preemptor = preemption.workload
    yield _describe_preemptor(preemption, tree, find_subject, "Preempting", now)
    by = find_subject(preemptor)
    for victim in preemption.victims:
        if victim.workload.evicted:
            continue
        subject, workload = find_subject(victim.workload), victim.workload
        yield Decision(
            now,
            "Preempted",
            subject.job,
            subject.uid,
            workload.queue,
            victim.reason,
            priority=workload.priority,
            amounts=_measure_amounts(tree.queues.get(workload.queue), workload.usage or {}),
            others=(Other(by.job, by.uid, priority=preemptor.priority),),
        )


def _describe_preemptor(
    preemption: CyclePreemption, tree: Tree, find_subject: FindSubject, what: What, now: datetime
) -> Decision:
    workload, subject = preemption.workload, find_subject(preemption.workload)
    victims = [
        (find_subject(victim.workload), victim.reason, victim.workload.priority)
        for victim in preemption.victims[:MOST_OTHERS]
    ]
    return Decision(
        now,
        what,
        subject.job,
        subject.uid,
        workload.queue,
        preemption.victims[0].reason if preemption.victims else "",
        priority=workload.priority,
        amounts=_measure_amounts(tree.queues.get(workload.queue), preemption.assignment.usage),
        others=tuple(Other(victim.job, victim.uid, reason, priority) for victim, reason, priority in victims),
        others_in_all=len(preemption.victims) if len(preemption.victims) > MOST_OTHERS else None,
    )


def describe_eviction(plan: LifecyclePlan, subject: Subject, queue: str, now: datetime) -> Decision | None:
    """Return the record of the eviction in a plan for a workload; None if the plan contains no eviction.

    subject: the job of the workload.
    queue: the ClusterQueue of the workload.
    """
    for note in plan.notes:
        if note.reason.startswith(EVICTED_DUE_TO):
            rule = note.reason.removeprefix(EVICTED_DUE_TO)
            return Decision(now, "Evicted", subject.job, subject.uid, queue, rule, note.message)
    return None


def _measure_amounts(node: Node | None, usage: Usage) -> tuple[Amount, ...]:
    """Return the requested amounts in `usage`, each with the node's nominal quota, usage and free amount.

    The result is empty without a node, and has only the first few amounts.
    """
    if node is None:
        return ()
    return tuple(
        Amount(*fr, requested, node.quota(fr).nominal, node.usage.get(fr, 0), node.available(fr))
        for fr, requested in list(usage.items())[:MOST_AMOUNTS]
    )


def _list_requests(node: Node | None, podsets: Sequence[PodSet]) -> Mapping[FlavorResource, int]:
    """Return the total requests of the podsets, once for each flavor that the ClusterQueue has for the resource."""
    if node is None:
        return {}
    total: Counter[str] = Counter()
    for podset in podsets:
        for resource, amount in podset.requests.items():
            total[resource] += amount * podset.count
    return {
        FlavorResource(flavor, resource): total[resource]
        for group in node.policy.groups
        for resource in group.resources
        if total[resource]
        for flavor in group.flavors
    }
