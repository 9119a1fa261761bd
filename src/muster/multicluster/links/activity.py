"""Build the condition Active of worker clusters and MultiKueue checks, in upstream's words. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil, inf
from typing import Any

from muster.api.conditions import find
from muster.api.kinds import Kind
from muster.api.kueue import MULTI_KUEUE_CONFIG, MultiKueueCluster, MultiKueueConfig
from muster.api.kueue.checks import AdmissionCheckParametersReference
from muster.api.kueue.names import (
    ACTIVE,
    BAD_CONFIG,
    CLIENT_CONNECTION_FAILED,
    NO_USABLE_CLUSTERS,
    SOME_ACTIVE_CLUSTERS,
)
from muster.queueing.pending.activity import Activity

FIRST_RETRY_SECONDS = 5.0
_MOST_DOUBLINGS = 6


CHECK_ACTIVE = Activity(True, ACTIVE, "The admission check is active")


def seconds_until_retry(failures: int) -> float:
    """Return the seconds before the next attempt to connect: 0 after a loss, then 5 s, doubled up to 5 min 20 s."""
    return FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, _MOST_DOUBLINGS) if failures else 0.0


def list_outages(losses: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the periods in which a manager has no connection to a cluster, for simulations, in order.

    losses: the periods in which the cluster does not respond. A connection is restored at the first attempt after such
    a period.
    """
    outages: list[tuple[float, float]] = []
    for lost, _ in sorted(losses):
        if outages and lost < outages[-1][1]:
            continue  # the manager has not noticed that the cluster was back
        at, failures = lost, 0
        while ends := [end for begin, end in losses if begin <= at < end]:
            failures += 1
            at = inf if inf in ends else _find_attempt(at, failures, min(ends))
        outages.append((lost, at))
    return outages


def _find_attempt(failed: float, failures: int, back: float) -> float:
    """Return the time of an attempt after a failed one. With the longest pauses, it is the first that may succeed.

    back: the time before which all attempts fail; a long outage would have many.
    """
    pause = seconds_until_retry(failures)
    return failed + (pause if failures <= _MOST_DOUBLINGS else pause * ceil((back - failed) / pause))


def make_unusable(reason: str, problem: str) -> Activity:
    """Return the activity of a cluster whose kubeconfig cannot be used."""
    return Activity(False, reason, f"load client config failed: {problem}")


def make_connected(refusals: Sequence[str] = ()) -> Activity:
    """Return the activity of a connected cluster.

    refusals: the worker's messages about kinds that it does not serve.
    """
    return Activity(True, ACTIVE, "; ".join(("Connected", *refusals)))


def make_lost(problem: str, attempts: int, next_attempt: datetime | None) -> Activity:
    """Return the activity of an unreachable cluster. attempts: the number of consecutive failed attempts to connect.

    next_attempt: when the manager tries again; None if that is not known.
    """
    if attempts and next_attempt is not None:
        when = next_attempt.replace(microsecond=0).isoformat().replace("+00:00", "Z")
        problem = f"{problem}; connection attempts: {attempts}, next connection attempt: {when}"
    return Activity(False, CLIENT_CONNECTION_FAILED, problem)


def find_check_activity(
    parameters: AdmissionCheckParametersReference | None,
    configs: Mapping[str, MultiKueueConfig],
    clusters: Mapping[str, bool],
) -> Activity:
    """Return the activity of a check. clusters: the existing clusters by name, with whether each is active."""
    if problem := find_reference_problem(parameters):
        return _make_bad_config(problem)
    assert parameters is not None
    config = configs.get(parameters.name)
    if config is None:
        return _make_bad_config(f'{MULTI_KUEUE_CONFIG.kind}.{MULTI_KUEUE_CONFIG.group} "{parameters.name}" not found')
    return find_activity_of_clusters(config.spec.clusters, clusters)


def find_activity_of_clusters(cluster_names: Sequence[str], clusters: Mapping[str, bool]) -> Activity:
    """Return the activity of a check that sends workloads to clusters of these names.

    clusters: the existing clusters by name, with whether each is active.
    """
    missing = [name for name in cluster_names if name not in clusters]
    inactive = [name for name in cluster_names if not clusters.get(name, True)]
    if not missing and not inactive:
        return CHECK_ACTIVE
    lists = (("Missing", missing), ("Inactive", inactive))
    message = ", ".join(f"{what} clusters: [{' '.join(names)}]" for what, names in lists if names)
    some = len(missing) + len(inactive) < len(cluster_names)
    return Activity(some, SOME_ACTIVE_CLUSTERS if some else NO_USABLE_CLUSTERS, message)


def find_reference_problem(
    parameters: AdmissionCheckParametersReference | None, config: Kind[Any] = MULTI_KUEUE_CONFIG
) -> str:
    """Return the error in a check's reference to its configuration; "" if there is none."""
    group, kind = config.group, config.kind
    if parameters is None:
        return "missing parameters reference"
    if not parameters.name:
        return "empty name: bad parameters reference"
    if parameters.api_group != group:
        return f'wrong group "{parameters.api_group}", expecting "{group}": bad parameters reference'
    if parameters.kind != kind:
        return f'wrong kind "{parameters.kind}", expecting "{kind}": bad parameters reference'
    return ""


def _make_bad_config(problem: str) -> Activity:
    return Activity(False, BAD_CONFIG, f"Cannot load the AdmissionChecks parameters: {problem}")


def has_changed_usability(old: MultiKueueCluster | None, new: MultiKueueCluster | None) -> bool:
    """Return whether a cluster was added or removed, or became usable or unusable.

    A failed attempt to connect is no such change.
    """
    if old is None or new is None:
        return True
    before, after = find(old.status.conditions, ACTIVE), find(new.status.conditions, ACTIVE)
    return (before.status if before else "") != (after.status if after else "")
