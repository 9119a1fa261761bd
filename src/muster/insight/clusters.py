"""The worker clusters of a manager, as people see them. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from muster.api.conditions import find, is_true
from muster.api.kueue import AdmissionCheck, ClusterQueue, MultiKueueCluster, MultiKueueConfig, Workload
from muster.api.kueue.names import ACTIVE, FINISHED, MULTI_KUEUE_CONTROLLER
from muster.insight.quotastate import display_name
from muster.insight.text import age

NEVER_LOOKED_AT = "no manager has looked at it yet"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One worker cluster.

    word: whether the manager can use it. reason: why not.
    since: since when it is so.
    jobs: what runs there, as `namespace/name`. tried: how many more wait for quota there.
    server: where it is; "" if that may not be seen.
    """

    name: str
    word: Literal["Connected", "Lost", "Unknown"]
    reason: str = ""
    since: datetime | None = None
    jobs: tuple[str, ...] = ()
    tried: int = 0
    server: str = ""


def cluster_state(cluster: MultiKueueCluster, workloads: Iterable[Workload], server: str = "") -> ClusterState:
    """How a cluster stands; workloads: of all namespaces."""
    name, said = cluster.metadata.name, find(cluster.status.conditions, ACTIVE)
    open_ones = [one for one in workloads if not is_true(one.status.conditions, FINISHED)]
    running = tuple(sorted(display_name(one.metadata, "") for one in open_ones if one.status.cluster_name == name))
    tried = sum(name in one.status.nominated_cluster_names for one in open_ones)
    if said is None:
        return ClusterState(name, "Unknown", NEVER_LOOKED_AT, None, running, tried, server)
    if said.status == "True":
        return ClusterState(name, "Connected", "", said.last_transition_time, running, tried, server)
    reason = f"{said.reason}: {said.message}" if said.message else said.reason
    return ClusterState(name, "Lost", reason, said.last_transition_time, running, tried, server)


def cluster_states(
    clusters: Iterable[MultiKueueCluster], workloads: Iterable[Workload], servers: Mapping[str, str]
) -> list[ClusterState]:
    """All of them, by name."""
    workloads = list(workloads)
    ordered = sorted(clusters, key=lambda cluster: cluster.metadata.name)
    return [cluster_state(one, workloads, servers.get(one.metadata.name, "")) for one in ordered]


def clusters_of_queues(
    queues: Iterable[ClusterQueue], checks: Iterable[AdmissionCheck], configs: Iterable[MultiKueueConfig]
) -> dict[str, tuple[str, ...]]:
    """Where the jobs of ClusterQueues run, of those that send them to other clusters."""
    named = {config.metadata.name: config.spec.clusters for config in configs}
    sending = {
        check.metadata.name: named.get(check.spec.parameters.name, ()) if check.spec.parameters is not None else ()
        for check in checks
        if check.spec.controller_name == MULTI_KUEUE_CONTROLLER
    }
    found = {}
    for queue in queues:
        strategy = queue.spec.admission_checks_strategy
        rules = strategy.admission_checks if strategy is not None else ()
        if any(rule.name in sending for rule in rules):
            found[queue.metadata.name] = tuple(name for rule in rules for name in sending.get(rule.name, ()))
    return found


def written(state: ClusterState) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "name": state.name,
        "state": state.word,
        "since": state.since,
        "jobs": list(state.jobs),
        "tried": state.tried,
        "server": state.server,
        "reason": state.reason,
    }


def cells(states: Iterable[ClusterState], now: datetime) -> tuple[list[str], list[list[str]]]:
    """A table: its header and its lines."""
    header = ["CLUSTER", "STATE", "SINCE", "JOBS", "WAITING", "SERVER", "REASON"]
    lines = [
        [
            state.name,
            state.word,
            age(state.since, now) if state.since is not None else "-",
            str(len(state.jobs)),
            str(state.tried),
            state.server or "-",
            state.reason,
        ]
        for state in states
    ]
    return header, lines
