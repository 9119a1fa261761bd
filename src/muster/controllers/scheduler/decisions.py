"""Make records of the scheduler's decisions about a gang for the decision log. Pure, except `PlacementRecorder`."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from muster.api.core import Pod
from muster.api.meta import controller_of
from muster.api.ours.decisions import Decision, Other, Subject
from muster.api.pods import get_priority as priority_of
from muster.api.pods import job_of
from muster.api.values import durations
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.gangs import Gang
from muster.controllers.scheduler.ask import GangTurn
from muster.gang.order.preemption import GangPreemption
from muster.runtime.clock import Clock
from muster.runtime.objects import split_key

# The rules by which a gang waits for nodes.
NO_ROOM = "NoRoom"
NODES_KEPT = "NodesKept"
NODES_NOMINATED = "NodesNominated"
DEVICES_DIFFER = "DevicesDiffer"
# The rule by which pods are preempted.
POD_PRIORITY = "PodPriority"
# The rule by which a broken gang gives its nodes back.
RECOVERY_TIMEOUT = "RecoveryTimeout"

# The maximum number of nodes, and of other gangs, in one record.
_MOST_NODES = 64
_MOST_OTHERS = 20


def describe_placement(
    subject: Subject, nodes: Mapping[str, int], now: datetime, *, rule: str, waited: float, priority: int
) -> Decision:
    """Return the record that pods of a gang got nodes.

    nodes: the number of pods on each node.
    rule: the gang's demand, such as a start or a repair.
    waited: the seconds since the oldest pod was created.
    """
    few = nodes if len(nodes) <= _MOST_NODES else dict(list(nodes.items())[:_MOST_NODES])
    return Decision(
        now,
        "Placed",
        subject.job,
        subject.uid,
        rule=rule,
        waited=max(0.0, waited),
        priority=priority,
        nodes=dict(few),
        nodes_in_all=len(nodes) if len(nodes) > _MOST_NODES else None,
        pods=sum(nodes.values()),
    )


def describe_wait(
    subject: Subject, now: datetime, *, rule: str, because: str, priority: int, pods: int, other: str = ""
) -> Decision:
    """Return the record that a gang waits for nodes.

    rule: why the gang waits, as one of the constants of this module.
    because: the sentence for users.
    other: `namespace/name` of the gang for which the nodes are reserved; "" for none.
    """
    others = (Other(other),) if other else ()
    return Decision(
        now,
        "Unplaced",
        subject.job,
        subject.uid,
        rule=rule,
        because=because,
        priority=priority,
        others=others,
        pods=pods,
    )


def describe_give_back(subject: Subject, now: datetime, *, lacking: int, timeout: int) -> Decision:
    """Return the record that a broken gang gives its nodes back: all its pods are evicted, and it starts again.

    lacking: the number of pods without a node.
    timeout: how long the gang waited for nodes, in nanoseconds.
    """
    because = f"found no room for {lacking} of its pods within {durations.format(timeout)}"
    return Decision(now, "GaveBack", subject.job, subject.uid, rule=RECOVERY_TIMEOUT, because=because, pods=lacking)


def find_gang_subject(key: str, pods: Iterable[Pod]) -> Subject:
    """Return the job of a gang; for pods without a controller, the group or the pod in the gang's key."""
    pod = next(iter(pods), None)
    if pod is None or controller_of(pod.metadata) is None:
        return Subject(split_key(key)[0])
    uid, name = job_of(pod)
    return Subject(f"{pod.metadata.namespace}/{name}", uid)


class PlacementRecorder:
    """A recorder that adds the decisions of a scheduler to a log."""

    def __init__(self, decisions: DecisionLog, clock: Clock) -> None:
        self._decisions = decisions
        self._clock = clock

    def record_placement(self, ask: GangTurn, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Record that pods were bound to nodes."""
        now, nodes = self._clock.now(), Counter(node for _, node in bindings)
        waited = (now - ask.criteria.created).total_seconds()
        self._decisions.add(
            describe_placement(
                find_gang_subject(ask.key, ask.turn.pods),
                nodes,
                now,
                rule=ask.turn.demand,
                waited=waited,
                priority=ask.criteria.priority,
            )
        )

    def record_wait(self, ask: GangTurn, rule: str, because: str, other: str = "") -> None:
        """Record that a gang waits, and by which rule.

        other: the gang for which the nodes are reserved; "" for none.
        """
        subject = find_gang_subject(ask.key, ask.turn.pods)
        if self._decisions.is_news(subject, "Unplaced", rule):
            now, priority = self._clock.now(), ask.criteria.priority
            self._decisions.add(
                describe_wait(
                    subject,
                    now,
                    rule=rule,
                    because=because,
                    priority=priority,
                    pods=len(ask.turn.pods),
                    other=other,
                )
            )

    def record_return_of_nodes(self, ask: GangTurn, timeout: int) -> None:
        """Record that a broken gang gives its nodes back.

        timeout: how long it waited, in nanoseconds.
        """
        subject = find_gang_subject(ask.key, ask.turn.pods)
        lacking = len(ask.turn.pods)
        self._decisions.add(describe_give_back(subject, self._clock.now(), lacking=lacking, timeout=timeout))

    def record_preemption(self, ask: GangTurn, plan: GangPreemption, gangs: Mapping[str, Gang]) -> None:
        """Record the gang that preempts, and each gang that loses pods to it."""
        now, by = self._clock.now(), find_gang_subject(ask.key, ask.turn.pods)
        preemptor = Other(by.job, by.uid, priority=ask.criteria.priority)
        victims = [(key, _find_pods(gangs[key], uids)) for key, uids in plan.victims.items() if key in gangs]
        found = [(find_gang_subject(key, pods), pods) for key, pods in victims]
        others = tuple(
            Other(victim.job, victim.uid, POD_PRIORITY, max(map(priority_of, pods)))
            for victim, pods in found[:_MOST_OTHERS]
        )
        self._decisions.add(
            Decision(
                now,
                "Preempting",
                by.job,
                by.uid,
                rule=POD_PRIORITY,
                priority=ask.criteria.priority,
                others=others,
                others_in_all=len(found) if len(found) > _MOST_OTHERS else None,
            )
        )
        for victim, pods in found:
            self._decisions.add(
                Decision(
                    now,
                    "Preempted",
                    victim.job,
                    victim.uid,
                    rule=POD_PRIORITY,
                    priority=max(map(priority_of, pods)),
                    others=(preemptor,),
                    pods=len(pods),
                )
            )


def _find_pods(gang: Gang, uids: Collection[str]) -> list[Pod]:
    return [gang.bound[uid] for uid in uids]
