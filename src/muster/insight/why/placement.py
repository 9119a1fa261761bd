"""Describe the level of placement: the nodes of the job's pods, or why they have none. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from muster.api.core import Pod
from muster.api.jobset.names import REPLICATED_JOB_NAME
from muster.api.pods import why_unplaced
from muster.insight.jobs.failures import NAMED, count_of
from muster.insight.jobs.replacements import needs_replacements
from muster.insight.jobs.state import explain_no_verdict
from muster.insight.record import JobRecord, is_indexed
from muster.insight.text import format_age, format_ranges
from muster.insight.why.gates import find_gates
from muster.insight.why.readings import JobLevel, JobReadings

# The maximum number of nodes that are named; further nodes are counted.
NODES_NAMED = 16


def describe_placement(readings: JobReadings) -> JobLevel:
    """Return the level that says on which nodes the job's pods run, or why pods have no node."""
    if readings.state.finished:
        return JobLevel("placement", "done", "")
    if readings.state.word == "Suspended" and (readings.job is None or not readings.job.manager):
        return JobLevel("placement", "here", "the job is suspended; release it with: muster release " + readings.name)
    if readings.workload is not None and needs_replacements(readings.workload):
        text = f"{len(readings.live)} of {count_of(readings.state.wanted, 'pod')} left"
        return JobLevel("placement", "here", text, (readings.state.reason,))
    if not readings.live:
        return _describe_elsewhere(readings) or _describe_missing_pods(readings)
    unplaced = [pod for pod in readings.live if not pod.spec.node_name]
    if unplaced:
        why = why_unplaced(unplaced) or explain_no_verdict(readings.job)
        text = f"{len(unplaced)} of {len(readings.live)} pods have no node{_name_roles(readings, unplaced)}"
        gates = map(str, find_gates(unplaced))
        return JobLevel(
            "placement", "here", text, (why, *_name_jobs_apart(readings), *gates, *_list_later_roles(readings))
        )
    nodes: dict[str, list[Pod]] = {}
    for pod in readings.live:
        nodes.setdefault(pod.spec.node_name, []).append(pod)
    began = min(filter(None, (pod.status.start_time for pod in readings.live)), default=None)
    since = f", for {format_age(began, readings.now)}" if began is not None else ""
    text = f"{count_of(len(readings.live), 'pod')} on {count_of(len(nodes), 'node')}{since}"
    return JobLevel("placement", "done", text, (*_list_nodes(readings.job, nodes), *_list_later_roles(readings)))


def _name_jobs_apart(readings: JobReadings) -> list[str]:
    """Return a line that names the jobs whose nodes the job must avoid; none if there are no such jobs."""
    if not readings.apart:
        return []
    more = len(readings.apart) - NAMED
    names = ", ".join(readings.apart[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return [f"it shares no node with: {names}"]


def _name_roles(readings: JobReadings, pods: Sequence[Pod]) -> str:
    """Return ` (driver)`, the roles of these pods in brackets; "" if the job has only one role."""
    if readings.job is None or len(readings.job.roles) < 2:
        return ""
    names = {pod.metadata.labels.get(REPLICATED_JOB_NAME, "") for pod in pods}
    return f" ({', '.join(role.name for role in readings.job.roles if role.name in names)})"


def _list_later_roles(readings: JobReadings) -> list[str]:
    """Return a line for each role whose pods are created only after other roles have reached a state."""
    return (
        [] if readings.job is None else [f"{name}: comes once {until}" for name, until in readings.job.waiting.items()]
    )


def _describe_elsewhere(readings: JobReadings) -> JobLevel | None:
    """Return the level of a job whose pods run in another cluster; None if the pods are in this cluster."""
    cluster = readings.quota_state.cluster if readings.quota_state is not None else ""
    if not cluster or readings.job is None or readings.job.remote_counts is None:
        return None
    state = readings.state
    text = f"in cluster {cluster}: {state.ready} of {state.wanted} pods ready"
    return JobLevel("placement", "done" if state.word == "Running" else "here", text)


def _describe_missing_pods(readings: JobReadings) -> JobLevel:
    if readings.job is None:  # a Workload of a kind whose pods Muster does not know
        if readings.state.word == "Starting" and readings.state.blocked:
            return JobLevel("placement", "here", readings.state.reason)
        return JobLevel("placement", "none", "")
    if readings.state.count is not None and readings.state.word == "Running":
        return JobLevel("placement", "here", "waiting for the pods of its next trials")
    if readings.state.word == "Finishing":
        return JobLevel("placement", "done", "its pods have ended")
    return JobLevel("placement", "here", readings.state.reason or "waiting for its pods to be created")


def _list_nodes(job: JobRecord | None, nodes: Mapping[str, list[Pod]]) -> list[str]:
    """Return a line for each node with the ranks there.

    If there are many nodes, count them by number of pods instead.
    """
    if len(nodes) <= NODES_NAMED:
        return [_list_ranks(job, *item) for item in sorted(nodes.items())]
    sizes = Counter(len(pods) for pods in nodes.values())
    return [
        f"{count_of(count, 'node')} with {count_of(size, 'pod')}{' each' * (count > 1)}"
        for size, count in sorted(sizes.items())[::-1]
    ]


def _list_ranks(job: JobRecord | None, node: str, pods: list[Pod]) -> str:
    if job is None or not all(map(is_indexed, pods)):
        return f"{node}: {', '.join(sorted(pod.metadata.name for pod in pods))}"
    ranks = sorted(int(job.rank(pod)) for pod in pods)
    return f"{node}: {'rank' if len(ranks) == 1 else 'ranks'} {format_ranges(ranks)}"
