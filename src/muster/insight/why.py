"""Why a job is not running: the six levels that it goes through, in their order, and where it stands on each. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from muster.api.conditions import find, find_true
from muster.api.core import Pod
from muster.api.elastic import ELASTIC_ANNOTATION, is_elastic
from muster.api.jobset.names import REPLICATED_JOB_NAME
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, EVICTED, PODS_READY, QUEUE_NAME_LABEL
from muster.api.kueue.visibility import PendingWorkload
from muster.api.pods import find_condition, is_finished, is_ready, why_unplaced
from muster.api.quantity import amount
from muster.insight.failures import NAMED, absent, count_of, failures, why_waiting
from muster.insight.forecast import Holder, Need
from muster.insight.jobstate import OPEN, JobState, Verdict
from muster.insight.quotastate import UNTIL_RELEASED, QuotaState, display_name
from muster.insight.record import JobRecord, has_joined, is_indexed
from muster.insight.text import age, quantity, ranges, table
from muster.queueing.scheduling.estimate import Estimate

# With more nodes than this, they are counted.
NODES_NAMED = 16

_DAY = timedelta(days=1)

# How messages name another workload.
_ANOTHER = re.compile(r"a workload \(UID: ([^,)]+), JobUID: [^)]*\)")

State = Literal["done", "here", "later", "none"]


@dataclass(frozen=True, slots=True)
class JobReadings:
    """All that was read about a job.

    ahead: who waits before it, in order; None if the server does not tell. waiting: how many wait in all.
    strict: whether nothing passes the first of them. head: why that one waits.
    verdict: why it can never start, if that is so.
    names: what people call other workloads, by their UIDs.
    needs, holders: what it asks for, and who has what is missing of it; empty if that may not be seen.
    """

    namespace: str
    name: str
    now: datetime
    state: JobState
    job: JobRecord | None = None
    workload: Workload | None = None
    quota_state: QuotaState | None = None
    pods: Sequence[Pod] = ()
    cluster_queue: str = ""
    ahead: Sequence[PendingWorkload] | None = None
    waiting: int = 0
    strict: bool = False
    head: str = ""
    needs: Sequence[Need] = ()
    holders: Sequence[Holder] = ()
    estimate: Estimate | None = None
    verdict: Verdict = OPEN
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def live(self) -> list[Pod]:
        """Its pods that have not ended."""
        return [pod for pod in self.pods if not is_finished(pod)]


@dataclass(frozen=True, slots=True)
class Level:
    """One level: done, here (this is what holds the job), later (it has not come so far) or none (not for this job)."""

    name: str
    state: State
    text: str
    details: tuple[str, ...] = field(default=())


def levels(facts: JobReadings) -> list[Level]:
    """All levels. Behind the first that holds the job, the others are for later."""
    found: list[Level] = []
    held = False
    for name, look in _LEVELS.items():
        level = look(facts)
        if held and name not in ("cluster", "size"):
            level = Level(name, "later", "")
        held = held or level.state == "here"
        found.append(level)
    return found


def _quota(facts: JobReadings) -> Level:
    quota_state, workload = facts.quota_state, facts.workload
    if quota_state is None or workload is None:
        queue = facts.job.metadata.labels.get(QUEUE_NAME_LABEL, "") if facts.job is not None else ""
        if not queue:
            return Level("quota", "none", "it is in no queue and needs no quota")
        if facts.job is not None and facts.job.suspended:
            return Level("quota", "here", f"waiting to be taken in by queue {queue}: it has no Workload yet")
        return Level("quota", "done", f"it is in queue {queue}")
    if quota_state.finished:
        return Level("quota", "done", f"given back to ClusterQueue {quota_state.cluster_queue or facts.cluster_queue}")
    since = f", for {age(quota_state.since, facts.now)}"
    if quota_state.word == "Queued":
        told = [quota_state.reason] if quota_state.reason else []
        details = [*told, *_needs(facts), *_ahead(facts), *_holders(facts), *_evicted(facts)]
        return Level("quota", "here", f"waiting in queue {_place(facts, quota_state)}{since}", tuple(details))
    if quota_state.word == "Held":
        said = (quota_state.reason,) if quota_state.reason != UNTIL_RELEASED else ()
        return Level("quota", "here", f"held{since}; let it go on with: muster release {facts.name}", said)
    if quota_state.word == "Evicting":
        return Level("quota", "here", f"giving its quota back{since}", (quota_state.reason,))
    if quota_state.word == "Checking":
        return Level(
            "quota", "here", f"reserved in ClusterQueue {quota_state.cluster_queue}{since}", (quota_state.reason,)
        )
    text = f"admitted by ClusterQueue {quota_state.cluster_queue} through queue {quota_state.queue}{since}"
    return Level("quota", "done", text, tuple(_granted(workload)))


def _place(facts: JobReadings, quota_state: QuotaState) -> str:
    where = f"{quota_state.queue} (ClusterQueue {facts.cluster_queue})" if facts.cluster_queue else quota_state.queue
    if quota_state.position is None:
        return where
    return f"{where}, position {quota_state.position}" + (f" of {facts.waiting}" if facts.waiting else "")


def _evicted(facts: JobReadings) -> list[str]:
    """Why it does not run any more, if it did."""
    evicted = find_true(facts.workload.status.conditions, EVICTED) if facts.workload is not None else None
    if evicted is None:
        return []
    message = _ANOTHER.sub(lambda found: facts.names.get(found[1], found[0]), evicted.message)
    return [f"it lost its quota ({evicted.reason}): {message}"]


def _granted(workload: Workload) -> list[str]:
    """What it got, by flavor."""
    assert workload.status.admission is not None, "it is admitted"
    return [
        f"{podset.name}: "
        + ", ".join(
            f"{resource} {quantity(resource, amount(resource, total))} ({podset.flavors.get(resource, 'no flavor')})"
            for resource, total in podset.resource_usage.items()
        )
        for podset in workload.status.admission.pod_set_assignments
        if podset.resource_usage
    ]


def _needs(facts: JobReadings) -> list[str]:
    """A table: what is asked for, and what there is."""
    if not facts.needs:
        return []
    header = ["RESOURCE", "FLAVOR", "ASKED", "QUOTA", "USED", "AVAILABLE", "MISSING"]
    rows = [
        [need.resource, need.flavor]
        + [quantity(need.resource, n) for n in (need.asked, need.nominal, need.used, need.available, need.missing)]
        for need in facts.needs
    ]
    never = [
        f"never enough: {need.resource} of flavor {need.flavor} is {quantity(need.resource, need.most)} in all"
        for need in facts.needs
        if need.asked > need.most and not facts.verdict.certain
    ]
    return [*table(header, rows).splitlines(), *never]


def _ahead(facts: JobReadings) -> list[str]:
    if not facts.ahead:
        return []
    names = [f"{display_name(one.metadata, facts.namespace)} (priority {one.priority})" for one in facts.ahead[:NAMED]]
    head = [f"nothing passes {names[0]} in a StrictFIFO queue{f': {facts.head}' if facts.head else ''}"]
    more = len(facts.ahead) - NAMED
    ahead = f"ahead of it: {', '.join(names)}" + (f" and {more} more" if more > 0 else "")
    return [ahead, *(head if facts.strict else [])]


def _holders(facts: JobReadings) -> list[str]:
    if not facts.holders or facts.verdict.certain:
        return []
    names = [
        f"{one.name} ({', '.join(f'{r} {quantity(r, n)}' for r, n in one.usage.items())}, "
        f"for {age(one.since, facts.now)})"
        for one in facts.holders[:NAMED]
    ]
    more = len(facts.holders) - NAMED
    return [f"what is missing is used by: {', '.join(names)}" + (f" and {more} more" if more > 0 else "")]


def _cluster(facts: JobReadings) -> Level:
    status = facts.workload.status if facts.workload is not None else None
    if status is not None and status.cluster_name:
        return Level("cluster", "done", f"it runs in {status.cluster_name}")
    if status is not None and status.nominated_cluster_names:
        return Level("cluster", "here", f"it is tried in {', '.join(status.nominated_cluster_names)}")
    return Level("cluster", "none", "this one")


def _placement(facts: JobReadings) -> Level:
    if facts.state.finished:
        return Level("placement", "done", "")
    if facts.state.word == "Suspended":
        return Level("placement", "here", "the job is suspended; let it go on with: muster release " + facts.name)
    if not facts.live:
        return _without_pods(facts)
    unplaced = [pod for pod in facts.live if not pod.spec.node_name]
    if unplaced:
        why = why_unplaced(unplaced) or "waiting for all its pods, to be placed together"
        text = f"{len(unplaced)} of {len(facts.live)} pods have no node{_roles(facts, unplaced)}"
        return Level("placement", "here", text, (why, *_later(facts)))
    nodes: dict[str, list[Pod]] = {}
    for pod in facts.live:
        nodes.setdefault(pod.spec.node_name, []).append(pod)
    began = min(filter(None, (pod.status.start_time for pod in facts.live)), default=None)
    since = f", for {age(began, facts.now)}" if began is not None else ""
    assert facts.job is not None, "only a job that is known has pods here"
    text = f"{count_of(len(facts.live), 'pod')} on {count_of(len(nodes), 'node')}{since}"
    return Level("placement", "done", text, (*_on_nodes(facts.job, nodes), *_later(facts)))


def _roles(facts: JobReadings, pods: Sequence[Pod]) -> str:
    """` (driver)`: which roles they have, where there are several."""
    if facts.job is None or len(facts.job.roles) < 2:
        return ""
    names = {pod.metadata.labels.get(REPLICATED_JOB_NAME, "") for pod in pods}
    return f" ({', '.join(role.name for role in facts.job.roles if role.name in names)})"


def _later(facts: JobReadings) -> list[str]:
    """The roles whose pods come once others have come so far."""
    return [] if facts.job is None else [f"{name}: comes once {until}" for name, until in facts.job.waiting.items()]


def _without_pods(facts: JobReadings) -> Level:
    if facts.job is None:  # its pods are not known here
        return Level("placement", "none", "")
    return Level("placement", "here", facts.state.reason or "waiting for its pods to be created")


def _on_nodes(job: JobRecord, nodes: Mapping[str, list[Pod]]) -> list[str]:
    """Which ranks each node has; of many nodes, how many have how many."""
    if len(nodes) <= NODES_NAMED:
        return [_on_node(job, *item) for item in sorted(nodes.items())]
    sizes = Counter(len(pods) for pods in nodes.values())
    return [
        f"{count_of(count, 'node')} with {count_of(size, 'pod')}{' each' * (count > 1)}"
        for size, count in sorted(sizes.items())[::-1]
    ]


def _on_node(job: JobRecord, node: str, pods: list[Pod]) -> str:
    if not all(map(is_indexed, pods)):
        return f"{node}: {', '.join(sorted(pod.metadata.name for pod in pods))}"
    ranks = sorted(int(job.rank(pod)) for pod in pods)
    return f"{node}: {'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"


def _readiness(facts: JobReadings) -> Level:
    if facts.state.finished:
        return Level("readiness", "done", "")
    if not facts.live:
        return Level("readiness", "none", "")
    if facts.job is not None and facts.job.gathering is not None:
        return Level("readiness", "none", "once they have started")
    ready = [pod for pod in facts.live if is_ready(pod)]
    told = find(facts.workload.status.conditions, PODS_READY) if facts.workload is not None else None
    text = f"{len(ready)} of {len(facts.live)} pods ready"
    if len(ready) == len(facts.live):
        since = max(filter(None, map(_ready_since, ready)), default=None)
        return Level("readiness", "done", text + (f", for {age(since, facts.now)}" if since is not None else ""))
    late = [told.message] if told is not None and told.status != "True" and told.message else []
    return Level("readiness", "here", text, (*_waiting(facts), *late))


def _waiting(facts: JobReadings) -> list[str]:
    """What pods wait for that are not ready."""
    if facts.job is None:
        return []
    waiting = (pod for pod in facts.live if not is_ready(pod))
    return [reason for pod in waiting for reason in why_waiting(facts.job, pod, told=True)][:NAMED]


def _ready_since(pod: Pod) -> datetime | None:
    condition = find_condition(pod, "Ready")
    return condition.last_transition_time if condition is not None else None


def _start(facts: JobReadings) -> Level:
    if facts.state.finished or not facts.live:
        return Level("start", "done" if facts.state.finished else "none", "")
    if facts.job is not None and facts.job.gathering is not None:
        return _gathering(facts, facts.job, *facts.job.gathering)
    started = sum(pod.status.phase == "Running" for pod in facts.live)
    return Level("start", "done" if started == len(facts.live) else "here", f"{started} of {len(facts.live)} started")


def _gathering(facts: JobReadings, job: JobRecord, started: int, expected: int) -> Level:
    """Those that have started wait for the others."""
    until = f", or fail in {age(facts.now, job.start_by)}" if job.start_by is not None else ""
    missing, started = absent(job, facts.live), max(started, sum(map(has_joined, facts.live)))
    text = f"{started} of {expected} workers have started; they go on once all have{until}"
    return Level("start", "here", text, (f"not yet: {missing}",) if missing else ())


def _size(facts: JobReadings) -> Level:
    wanted = facts.state.wanted
    text = count_of(wanted, "pod")
    partly = _admitted_in_part(facts.workload) if facts.workload is not None else ""
    if partly:
        return Level("size", "none", f"{text}, {partly}")
    annotations = facts.job.metadata.annotations if facts.job is not None else {}
    if ELASTIC_ANNOTATION in annotations:
        return Level("size", "none", f"{text} now, between {annotations[ELASTIC_ANNOTATION].replace(':', ' and ')}")
    return Level("size", "none", f"{text}, may be scaled" if is_elastic(annotations) else f"{text}, always")


def _admitted_in_part(workload: Workload) -> str:
    admission = workload.status.admission
    if admission is None or find_true(workload.status.conditions, ADMITTED) is None:
        return ""
    asked = sum(podset.count for podset in workload.spec.pod_sets)
    given = sum(podset.count or 0 for podset in admission.pod_set_assignments)
    return f"admitted with {given} of {asked}" if 0 < given < asked else ""


_LEVELS: dict[str, Callable[[JobReadings], Level]] = {
    "quota": _quota,
    "cluster": _cluster,
    "placement": _placement,
    "readiness": _readiness,
    "start": _start,
    "size": _size,
}


def failed(facts: JobReadings) -> list[str]:
    """What there is to know of pods that failed, then the same in upstream's words."""
    if facts.job is None:
        return []
    found = failures(facts.job, facts.pods)
    lines = [str(one) for one in found[:NAMED]] if len(found) > 1 or not facts.state.finished else []
    lines += [f"and {len(found) - NAMED} more"] if len(found) > NAMED else []
    over = [": ".join(filter(None, (one.reason, one.message))) for one in facts.job.failed_conditions]
    told = over + [f"{one.who}: {one.told}" for one in found[:NAMED]]
    return [*lines, *([f"as the cluster says it: {'; '.join(told)}"] if told else [])]


def when(estimate: Estimate, now: datetime) -> str:
    """The estimate as a sentence."""
    if estimate.at is None:
        return f"{estimate.certainty}: {estimate.because}"
    if (estimate.at - now).total_seconds() < 1:
        return f"any moment ({estimate.certainty}: {estimate.because})"
    clock = estimate.at.astimezone().strftime("%H:%M:%S" if estimate.at - now < _DAY else "%Y-%m-%d %H:%M")
    latest = "at the latest " if str(estimate.certainty) == "sure" else "about "
    return f"{latest}in {age(now, estimate.at)}, {clock} ({estimate.certainty}: {estimate.because})"
