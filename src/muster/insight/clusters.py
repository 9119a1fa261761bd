"""The worker clusters of a MultiKueue manager, as shown to users. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from muster.api.conditions import find, is_true
from muster.api.kueue import AdmissionCheck, ClusterQueue, MultiKueueCluster, MultiKueueConfig, Workload
from muster.api.kueue.names import ACTIVE, FINISHED, MULTI_KUEUE_CONTROLLER
from muster.insight.quota.state import display_name
from muster.insight.text import format_age

NEVER_LOOKED_AT = "no manager has looked at it yet"


@dataclass(frozen=True, slots=True)
class WorkerClusterState:
    """One worker cluster.

    word: whether the manager can use it.
    reason: why it cannot.
    since: when that began.
    jobs: the jobs that run there, as `namespace/name`.
    tried: how many more jobs wait for quota there.
    server: its address; "" if the user may not see it.
    """

    name: str
    word: Literal["Connected", "Lost", "Unknown"]
    reason: str = ""
    since: datetime | None = None
    jobs: tuple[str, ...] = ()
    tried: int = 0
    server: str = ""


def find_cluster_state(
    cluster: MultiKueueCluster, workloads: Iterable[Workload], server: str = ""
) -> WorkerClusterState:
    """Return the state of a cluster. workloads: the manager's, from all namespaces."""
    name, condition = cluster.metadata.name, find(cluster.status.conditions, ACTIVE)
    open_ones = [one for one in workloads if not is_true(one.status.conditions, FINISHED)]
    running = tuple(sorted(display_name(one.metadata, "") for one in open_ones if one.status.cluster_name == name))
    tried = sum(name in one.status.nominated_cluster_names for one in open_ones)
    if condition is None:
        return WorkerClusterState(name, "Unknown", NEVER_LOOKED_AT, None, running, tried, server)
    if condition.status == "True":
        return WorkerClusterState(name, "Connected", "", condition.last_transition_time, running, tried, server)
    reason = f"{condition.reason}: {condition.message}" if condition.message else condition.reason
    return WorkerClusterState(name, "Lost", reason, condition.last_transition_time, running, tried, server)


def find_cluster_states(
    clusters: Iterable[MultiKueueCluster], workloads: Iterable[Workload], servers: Mapping[str, str]
) -> list[WorkerClusterState]:
    """Return the states of all clusters, by name."""
    workloads = list(workloads)
    ordered = sorted(clusters, key=lambda cluster: cluster.metadata.name)
    return [find_cluster_state(one, workloads, servers.get(one.metadata.name, "")) for one in ordered]


def clusters_of_queues(
    queues: Iterable[ClusterQueue], checks: Iterable[AdmissionCheck], configs: Iterable[MultiKueueConfig]
) -> dict[str, tuple[str, ...]]:
    """Return the clusters of each ClusterQueue that sends its jobs to other clusters."""
    named = {config.metadata.name: config.spec.clusters for config in configs}
    sending = {
        check.metadata.name: named.get(check.spec.parameters.name, ()) if check.spec.parameters is not None else ()
        for check in checks
        if check.spec.controller_name == MULTI_KUEUE_CONTROLLER
    }
    clusters = {}
    for queue in queues:
        strategy = queue.spec.admission_checks_strategy
        rules = strategy.admission_checks if strategy is not None else ()
        if any(rule.name in sending for rule in rules):
            clusters[queue.metadata.name] = tuple(name for rule in rules for name in sending.get(rule.name, ()))
    return clusters


def format_state(state: WorkerClusterState) -> dict[str, Any]:
    """Return a state as values for JSON."""
    return {
        "name": state.name,
        "state": state.word,
        "since": state.since,
        "jobs": list(state.jobs),
        "tried": state.tried,
        "server": state.server,
        "reason": state.reason,
    }


def make_table(states: Iterable[WorkerClusterState], now: datetime) -> tuple[list[str], list[list[str]]]:
    """Return a table of states: its header and its lines."""
    header = ["CLUSTER", "STATE", "SINCE", "JOBS", "WAITING", "SERVER", "REASON"]
    lines = [
        [
            state.name,
            state.word,
            format_age(state.since, now) if state.since is not None else "-",
            str(len(state.jobs)),
            str(state.tried),
            state.server or "-",
            state.reason,
        ]
        for state in states
    ]
    return header, lines
