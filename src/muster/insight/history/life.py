"""Describe the life of one job as sentences with times, from decisions and from the job or its record. Pure."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.decisions import Amount, Decision, Other, What
from muster.insight.history.build import ended_at, find_first_start, owner_of, started_at
from muster.insight.history.runs import Run
from muster.insight.record import JobRecord
from muster.insight.text import escape_controls, format_duration, format_owner, format_quantity

# The maximum number of other jobs, nodes and amounts in a line.
_NAMED = 5

# The reasons why a job was chosen as a victim: those of Kueue's condition Preempted, and Muster's own.
_VICTIM_RULES: Mapping[str, str] = {
    "InClusterQueue": "its ClusterQueue prefers that one",
    "InCohortReclamation": "its ClusterQueue gives back quota that it borrowed",
    "InCohortReclaimWhileBorrowing": "its ClusterQueue borrowed quota, and that one has a higher priority",
    "InCohortFairSharing": "for fair shares among the ClusterQueues",
    "FlavorMigration": "it continues in a better flavor",
    "PodPriority": "that one has a higher priority, and needs the nodes",
}


class Facts(Struct, frozen=True):
    """The beginning and the end of a job's life, read from the job or from its recorded run.

    started: when the first pod after the last admission began to run; None if no pod did.
    ended: when the job ended; None before the end.
    end: how the job ended, and why.
    """

    namespace: str
    name: str
    uid: str = ""
    submitted: datetime | None = None
    owner: str = ""
    queue: str = ""
    ended: datetime | None = None
    end: str = ""
    started: datetime | None = None


class Moment(Struct, frozen=True):
    """One entry in the life of a job.

    decision: the decision that the entry is about; None if the entry is the submission, the start or the end.
    """

    at: datetime
    what: What | str
    text: str
    decision: Decision | None = None


class Life(Struct, frozen=True):
    """The events in the life of a job, in order.

    kept: whether the cluster records decisions about jobs.
    """

    facts: Facts
    moments: Sequence[Moment] = field(default_factory=tuple)
    kept: bool = True


def facts_of_job(job: JobRecord, pods: Sequence[Pod] = ()) -> Facts:
    """Return the facts of an existing job.

    pods: the job's pods that still exist.
    """
    meta, end = job.metadata, job.end
    queue = meta.labels.get(QUEUE_NAME_LABEL, "")
    return Facts(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.creation_timestamp,
        owner_of(meta),
        queue,
        ended_at(job) if end is not None else None,
        end.word if end is not None else "",
        started_at(job, find_first_start(pods)),
    )


def facts_of_run(run: Run) -> Facts:
    """Return the facts of a recorded run."""
    end = f"{run.state}: {run.reason}" if run.reason else run.state
    return Facts(run.namespace, run.name, run.uid, run.submitted, run.owner, run.queue, run.ended, end, run.started)


def describe_life(facts: Facts, decisions: Iterable[Decision]) -> list[Moment]:
    """Return the entries of a job's life, in order.

    decisions: the decisions about jobs of this name, in order. Decisions about an earlier or later job of the name are
    left out.
    """
    own = [one for one in decisions if not (facts.uid and one.uid and one.uid != facts.uid)]
    moments = [Moment(one.at, one.what, _describe(one), one) for one in _join_repeats(own)]
    if facts.started is not None:
        # Pods tell their starts in whole seconds, decisions do not: of the same second, decisions come first.
        place = bisect_right(moments, facts.started, key=lambda one: one.at.replace(microsecond=0))
        moments.insert(place, Moment(facts.started, "Started", "its first worker started"))
    if facts.submitted is not None:
        owner = f" by {format_owner(facts.owner)}" if facts.owner else ""
        queue = f" to queue {facts.queue}" if facts.queue else ""
        moments.insert(0, Moment(facts.submitted, "Submitted", f"submitted{owner}{queue}"))
    if facts.ended is not None:
        moments.append(Moment(facts.ended, "Ended", facts.end[:1].lower() + facts.end[1:]))
    return moments


def _join_repeats(decisions: Iterable[Decision]) -> Iterator[Decision]:
    """Yield the decisions. Consecutive decisions within a second are joined into one if they belong together."""
    last: Decision | None = None
    for decision in decisions:
        joined = _join(last, decision) if last is not None else None
        if last is not None and joined is None:
            yield last
        last = joined or decision
    if last is not None:
        yield last


def _join(first: Decision, second: Decision) -> Decision | None:
    """Return one decision that replaces two consecutive ones, or None if they do not belong together.

    Decisions within a second belong together if they place pods of the same queue one by one, or if the scheduler
    repeated a reservation after its write conflicted.
    """
    is_same_kind = (first.what, first.rule, first.queue) == (second.what, second.rule, second.queue)
    if not is_same_kind or (second.at - first.at).total_seconds() >= 1:
        return None
    if first.what == "QuotaReserved" and first.pods == second.pods:
        return second
    if first.what != "Placed":
        return None
    nodes = dict(first.nodes)
    for node, count in second.nodes.items():
        nodes[node] = nodes.get(node, 0) + count
    return replace(first, nodes=nodes, pods=(first.pods or 0) + (second.pods or 0))


def render_life(life: Life) -> list[str]:
    """Return the life of a job as lines of text, with the job's name and local times."""
    facts = life.facts
    lines = [f"{facts.name} (namespace {facts.namespace})", ""]
    lines += [f"{one.at.astimezone():%Y-%m-%d %H:%M:%S}  {escape_controls(one.text)}" for one in life.moments]
    return lines


def make_life_document(life: Life) -> dict[str, Any]:
    """Return a job's life as values for JSON: its facts, and its moments with their decisions."""
    facts = life.facts
    return {
        "namespace": facts.namespace,
        "name": facts.name,
        "uid": facts.uid,
        "owner": facts.owner,
        "queue": facts.queue,
        "submitted": facts.submitted,
        "ended": facts.ended,
        "moments": [
            {
                "at": moment.at,
                "what": moment.what,
                "text": moment.text,
                "decision": msgspec.json.decode(msgspec.json.encode(moment.decision)),
            }
            for moment in life.moments
        ],
    }


# The sentences.


def _describe(decision: Decision) -> str:
    return _SENTENCES[decision.what](decision)


def _describe_waiting(decision: Decision) -> str:
    why = decision.because or decision.rule
    short = [one for one in decision.amounts if one.asked > one.available]
    numbers = f" ({_list_short(short)})" if short else ""
    return f"waits for quota{f' of ClusterQueue {decision.queue}' if decision.queue else ''}: {why}{numbers}"


def _describe_reserved(decision: Decision) -> str:
    grows = "for its growth " if decision.rule == "Growth" else ""
    amounts = _list_names([_describe_amount(one) for one in decision.amounts])
    waited = f" after {format_duration(int(decision.waited))}" if decision.waited and decision.waited >= 1 else ""
    return f"got quota {grows}of ClusterQueue {decision.queue}{waited}{f': {amounts}' if amounts else ''}"


def _describe_preempting(decision: Decision) -> str:
    thing = "nodes" if decision.rule == "PodPriority" else "quota"
    return f"takes the {thing} of {_list_others(decision)}"


def _describe_preempted(decision: Decision) -> str:
    other = decision.others[0] if decision.others else Other("")
    priorities = ""
    if other.priority is not None and decision.priority is not None:
        priorities = f" (priority {other.priority}; its own is {decision.priority})"
    why = _VICTIM_RULES.get(decision.rule, decision.rule)
    return f"preempted by {_name_job(other, decision.namespace)}{priorities}: {why}"


def _describe_unplaced(decision: Decision) -> str:
    if decision.others and not decision.because:
        return f"waits for nodes: they are kept for {_list_others(decision)}"
    return f"waits for nodes: {decision.because or decision.rule}"


def _describe_placed(decision: Decision) -> str:
    pods = decision.pods or 0
    kind = {"repair": "replacement ", "growth": "additional "}.get(decision.rule, "")
    nodes = [f"{node} ({count})" if len(decision.nodes) > 1 else node for node, count in decision.nodes.items()]
    waited = f" after {format_duration(int(decision.waited))}" if decision.waited and decision.waited >= 1 else ""
    return f"placed {pods} {kind}pod{'' if pods == 1 else 's'}{waited} on {_list_names(nodes, decision.nodes_in_all)}"


def _describe_resized(decision: Decision) -> str:
    old, new = decision.pods_before or 0, decision.pods or 0
    why = f": {decision.because}" if decision.because else ""
    for_others = f" to make room for {_list_others(decision)}" if decision.others else ""
    return f"{decision.what.lower()} from {old} to {new} workers{for_others or why}"


def _describe_recalled(decision: Decision) -> str:
    lost = ", which is lost" if decision.rule == "ClusterLost" else ""
    return f"taken back from cluster {_list_names(decision.clusters)}{lost}"


def _describe_restarted(decision: Decision) -> str:
    return f"restarted (restart {decision.attempt}){f': {decision.because}' if decision.because else ''}"


_SENTENCES: Mapping[What, Callable[[Decision], str]] = {
    "Waiting": _describe_waiting,
    "QuotaReserved": _describe_reserved,
    "Shrinking": lambda one: f"waits until elastic jobs have shrunk for it: {_list_others(one)}",
    "Preempting": _describe_preempting,
    "Preempted": _describe_preempted,
    "Evicted": lambda one: f"gave its quota back ({one.rule}): {one.because}",
    "Unplaced": _describe_unplaced,
    "Placed": _describe_placed,
    "Shrunk": _describe_resized,
    "Grown": _describe_resized,
    "Interrupted": lambda one: f"interrupted ({one.rule}): {one.because}",
    "GaveBack": lambda one: f"gave its nodes back ({one.rule}): {one.because}",
    "Nominated": lambda one: f"offered to the clusters {_list_names(one.clusters)}",
    "Dispatched": lambda one: f"sent to cluster {_list_names(one.clusters)}",
    "Recalled": _describe_recalled,
    "Restarted": _describe_restarted,
}


def _describe_amount(amount: Amount) -> str:
    return f"{amount.resource} {format_quantity(amount.resource, amount.asked)} ({amount.flavor})"


def _list_short(amounts: Sequence[Amount]) -> str:
    return _list_names([
        f"{one.resource} of flavor {one.flavor}: asks for {format_quantity(one.resource, one.asked)}, "
        f"{format_quantity(one.resource, max(one.available, 0))} available"
        for one in amounts
    ])  # fmt: skip


def _name_job(other: Other, namespace: str) -> str:
    """Return the name of another job, with its namespace if that is not `namespace`."""
    if not other.job:
        return "a job of another namespace"
    return other.job.removeprefix(f"{namespace}/")


def _list_others(decision: Decision) -> str:
    return _list_names([_name_job(other, decision.namespace) for other in decision.others], decision.others_in_all)


def _list_names(names: Sequence[str], in_all: int | None = None) -> str:
    """Return the first few names as text, and how many more there are.

    in_all: the number of all names; None for the number of `names`.
    """
    more = (in_all or len(names)) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
