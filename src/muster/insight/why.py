"""Why a job is not running: the six levels that it goes through, in their order, and where it stands on each. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from muster.api.conditions import find, find_true
from muster.api.core import Pod
from muster.api.jobset.names import REPLICATED_JOB_NAME
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, EVICTED, PODS_READY, QUEUE_NAME_LABEL
from muster.api.kueue.visibility import PendingWorkload
from muster.api.ours.elastic import ELASTIC_ANNOTATION, is_elastic
from muster.api.pods import find_condition, is_finished, is_ready, why_unplaced
from muster.api.values.quantity import amount
from muster.insight.clusters import ClusterState
from muster.insight.failures import NAMED, absent, count_of, failures, why_waiting
from muster.insight.forecast import Holder, Need
from muster.insight.jobstate import OPEN, JobState, Verdict, gathered
from muster.insight.quotastate import UNTIL_RELEASED, QuotaState, display_name, tried_in
from muster.insight.record import JobRecord, is_indexed
from muster.insight.text import age, alike, quantity, ranges, table
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
    verdict: why it can never start, or which nodes it waits for, if that is so.
    names: what people call other workloads, by their UIDs.
    clusters: those that it may run in, if it runs in another one.
    needs, holders: what it asks for, and who has what is missing of it; empty if that may not be seen.
    unseen: why no Workloads can be seen, if that is so.
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
    clusters: Sequence[ClusterState] = ()
    unseen: str = ""

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
            waits = name == "start" and facts.job is not None and facts.job.gathering is not None
            level = Level(name, "later", level.text if waits else "")
        held = held or level.state == "here"
        found.append(level)
    return found


def _quota(facts: JobReadings) -> Level:
    quota_state, workload = facts.quota_state, facts.workload
    if quota_state is None or workload is None:
        queue = facts.job.metadata.labels.get(QUEUE_NAME_LABEL, "") if facts.job is not None else ""
        if not queue:
            return Level("quota", "none", "it is in no queue and needs no quota")
        if facts.job is not None and facts.job.manager:
            return Level("quota", "none", f"{facts.job.manager} runs it, and queue {queue} does not hold it")
        if facts.unseen:
            state: State = "here" if facts.job is not None and facts.job.suspended else "none"
            return Level("quota", state, f"it is for queue {queue}; how it does there cannot be seen", (facts.unseen,))
        if facts.job is not None and facts.job.suspended:
            why = (facts.state.reason,) if facts.state.outside and facts.state.blocked else ()
            return Level("quota", "here", f"waiting to be taken in by queue {queue}: it has no Workload yet", why)
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
    tried = workload.status.nominated_cluster_names
    if quota_state.word == "Checking" and tried:  # that is the next level
        return Level("quota", "done", f"reserved in ClusterQueue {quota_state.cluster_queue}{since}")
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
    given = (
        (podset.name, ", ".join(_given(podset.flavors, *used) for used in podset.resource_usage.items()))
        for podset in workload.status.admission.pod_set_assignments
        if podset.resource_usage
    )
    return [f"{names}: {text}" + (" each" if ", " in names else "") for names, text in alike(given)]


def _given(flavors: Mapping[str, str], resource: str, total: Any) -> str:
    return f"{resource} {quantity(resource, amount(resource, total))} ({flavors.get(resource, 'no flavor')})"


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
    short = [
        f"more than there is: {need.resource} of flavor {need.flavor} is {quantity(need.resource, need.most)} in all"
        for need in facts.needs
        if need.asked > need.most and not facts.verdict.decides
    ]
    podsets = facts.workload.spec.pod_sets if facts.workload is not None else ()
    fewer = [f"it starts with as few as {one.min_count} of {one.count}" for one in podsets if one.min_count]
    return [*table(header, rows).splitlines(), *(fewer or short)]


def _ahead(facts: JobReadings) -> list[str]:
    if not facts.ahead:
        return []
    names = [f"{display_name(one.metadata, facts.namespace)} (priority {one.priority})" for one in facts.ahead[:NAMED]]
    head = [f"nothing passes {names[0]} in a StrictFIFO queue{f': {facts.head}' if facts.head else ''}"]
    more = len(facts.ahead) - NAMED
    ahead = f"ahead of it: {', '.join(names)}" + (f" and {more} more" if more > 0 else "")
    return [ahead, *(head if facts.strict else [])]


def _holders(facts: JobReadings) -> list[str]:
    if not facts.holders or facts.verdict.decides:
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
        return _home(facts, status.cluster_name)
    if status is not None and status.nominated_cluster_names:
        names, barred = tried_in(status)
        first = ("the first that has quota for all of it runs it",) if len(names) > 1 else ()
        text = f"it is tried in {', '.join(names)}" if names else "no cluster can take it"
        return Level("cluster", "here", text, (*first, *_lost(facts, names), *filter(None, (barred,))))
    if facts.job is not None and facts.job.elsewhere is not None:
        names = tuple(one.name for one in facts.clusters)
        if facts.quota_state is not None and facts.quota_state.word == "Checking":
            return Level("cluster", "here", "no cluster is asked yet", tuple(_lost(facts, names)))
        return Level("cluster", "later", f"another one, of {', '.join(names)}" if names else "another one")
    return Level("cluster", "none", "this one")


def _home(facts: JobReadings, name: str) -> Level:
    """The one that runs it."""
    home = next((one for one in facts.clusters if one.name == name), None)
    if home is None or home.word != "Lost":
        return Level("cluster", "done", f"it runs in {name}")
    text = f"it runs in {name}, which has been out of reach for {age(home.since, facts.now)}"
    return Level("cluster", "here", text, (home.reason, "if that lasts, it starts anew in another cluster"))


def _lost(facts: JobReadings, names: Sequence[str]) -> list[str]:
    """Those of them that cannot be reached, and why."""
    return [f"{one.name}: {one.reason}" for one in facts.clusters if one.name in names and one.word != "Connected"]


def joined(here: Sequence[Level], there: Sequence[Level]) -> list[Level]:
    """The levels of a job that another cluster runs: what becomes of its pods is known there."""
    known = {level.name: level for level in there if level.name in ("placement", "readiness", "start")}
    return [known.get(level.name, level) for level in here]


def _placement(facts: JobReadings) -> Level:
    if facts.state.finished:
        return Level("placement", "done", "")
    if facts.state.word == "Suspended" and (facts.job is None or not facts.job.manager):
        return Level("placement", "here", "the job is suspended; let it go on with: muster release " + facts.name)
    if not facts.live:
        return _in_cluster(facts) or _without_pods(facts)
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


def _in_cluster(facts: JobReadings) -> Level | None:
    """Of a job whose pods are in another cluster, which counts them."""
    cluster = facts.quota_state.cluster if facts.quota_state is not None else ""
    if not cluster or facts.job is None or facts.job.elsewhere is None:
        return None
    state = facts.state
    text = f"in cluster {cluster}: {state.ready} of {state.wanted} pods ready"
    return Level("placement", "done" if state.word == "Running" else "here", text)


def _without_pods(facts: JobReadings) -> Level:
    if facts.job is None:  # its pods are not known here
        return Level("placement", "none", "")
    if facts.state.count is not None and facts.state.word == "Running":
        return Level("placement", "here", "waiting for the pods of its next trials")
    if facts.state.word == "Finishing":
        return Level("placement", "done", "its pods have ended")
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
        return _gathering(facts, facts.job)
    started = sum(pod.status.phase == "Running" for pod in facts.live)
    return Level("start", "done" if started == len(facts.live) else "here", f"{started} of {len(facts.live)} started")


def _gathering(facts: JobReadings, job: JobRecord) -> Level:
    """Those that have started wait for the others."""
    assert job.gathering is not None, "it is asked of a group that waits"
    until = f", or fail in {age(facts.now, job.start_by)}" if job.start_by is not None else ""
    missing = absent(job, facts.live)
    text = f"{gathered(job, facts.live)} of {job.gathering[1]} workers have started; they go on once all have{until}"
    return Level("start", "here", text, (f"not yet: {missing}",) if missing else ())


def _size(facts: JobReadings) -> Level:
    wanted = facts.state.wanted
    text = count_of(wanted, "pod")
    partly = _admitted_in_part(facts.workload) if facts.workload is not None else ""
    if facts.job is not None and facts.job.array is not None:
        text = f"{count_of(wanted, 'trial')}, at most {facts.job.workers} at a time"
        return Level("size", "none", f"{text} ({partly})" if partly else text)
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
