"""The worker clusters of a MultiKueue manager, as users see them. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from muster.api.conditions import find, is_true
from muster.api.kueue import AdmissionCheck, ClusterQueue, MultiKueueCluster, MultiKueueConfig, Workload
from muster.api.kueue.names import (
    ACTIVE,
    BAD_CLUSTER_PROFILE,
    CLIENT_CONNECTION_FAILED,
    FINISHED,
    MULTI_KUEUE_CLUSTER_PROFILE_FEATURE_DISABLED,
    MULTI_KUEUE_CONTROLLER,
)
from muster.insight.quota.state import display_name
from muster.insight.text import format_age

# Parts of the reason of a lost cluster whose server refuses the manager's credentials.
_UNAUTHORIZED = r"\b(401|403|Unauthorized|[Ff]orbidden)\b"  # a port such as 40317 is no answer

NEVER_LOOKED_AT = "no manager has looked at it yet"


class WorkerClusterState(Struct, frozen=True):
    """The state of one worker cluster.

    word: whether the manager can use the cluster.
    reason: why the manager cannot use it.
    since: when the state began.
    jobs: the jobs that run there, as `namespace/name`.
    tried: how many other jobs wait for quota there.
    server: the address of the cluster; "" if the user may not see it.
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
    """Return the state of a worker cluster, with the jobs there.

    workloads: the manager's Workloads, of all namespaces.
    server: the address of the cluster; "" if the user may not see it.
    """
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


def advise_on_cluster(state: WorkerClusterState) -> str:
    """Return what to do about a worker cluster that cannot be used; "" for a connected cluster."""
    join = f"muster cluster join {state.name} --kubeconfig FILE"
    invite = "with a new kubeconfig, which muster cluster invite prints there"
    cause = state.reason.partition(":")[0]
    if state.word == "Connected":
        return ""
    if state.word == "Unknown":
        return "See whether the manager runs: muster status"
    if re.search(_UNAUTHORIZED, state.reason):
        return f"Join it again {invite}: {join}"
    if cause == CLIENT_CONNECTION_FAILED:
        server = f"its server {state.server}" if state.server else "its server"
        return (
            f"See that {server} runs and can be reached from the manager, which tries again by itself. "
            f"If it has another address now, join it again: {join}"
        )
    if cause == BAD_CLUSTER_PROFILE:
        return "Mend or create its ClusterProfile, which the MultiKueueCluster names"
    if cause == MULTI_KUEUE_CLUSTER_PROFILE_FEATURE_DISABLED:
        return f"Turn on the feature gate MultiKueueClusterProfile, or join it by a kubeconfig: {join}"
    return f"Join it again {invite}: {join}"


def find_cluster_states(
    clusters: Iterable[MultiKueueCluster], workloads: Iterable[Workload], servers: Mapping[str, str]
) -> list[WorkerClusterState]:
    """Return the states of all worker clusters, ordered by name."""
    workloads = list(workloads)
    ordered = sorted(clusters, key=lambda cluster: cluster.metadata.name)
    return [find_cluster_state(one, workloads, servers.get(one.metadata.name, "")) for one in ordered]


def clusters_of_queues(
    queues: Iterable[ClusterQueue], checks: Iterable[AdmissionCheck], configs: Iterable[MultiKueueConfig]
) -> dict[str, tuple[str, ...]]:
    """Return, by ClusterQueue, the worker clusters to which it sends its jobs.

    ClusterQueues that send no jobs are left out.
    """
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
    """Return the state of a worker cluster as values for JSON."""
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
    """Return the header and the rows of a table of worker clusters."""
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
