"""Whether a worker cluster or a MultiKueue check can be used (their condition Active), in upstream's words. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from muster.api.conditions import find
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


def retry_after(failures: int) -> float:
    """Seconds before the next try to connect: none after a loss, then 5 s, doubled up to 5 min 20 s."""
    return FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, _MOST_DOUBLINGS) if failures else 0.0


def unusable(reason: str, problem: str) -> Activity:
    """Of a cluster whose kubeconfig cannot be used."""
    return Activity(False, reason, f"load client config failed: {problem}")


def connected(refusals: Sequence[str] = ()) -> Activity:
    """Of a cluster that is followed; refusals: why it is not for all kinds of jobs, in its words."""
    return Activity(True, ACTIVE, "; ".join(("Connected", *refusals)))


def lost(problem: str, attempts: int, next_attempt: datetime | None) -> Activity:
    """Of a cluster that cannot be reached; attempts: to connect, in a row."""
    if attempts and next_attempt is not None:
        when = next_attempt.replace(microsecond=0).isoformat().replace("+00:00", "Z")
        problem = f"{problem}; connection attempts: {attempts}, next connection attempt: {when}"
    return Activity(False, CLIENT_CONNECTION_FAILED, problem)


def of_check(
    parameters: AdmissionCheckParametersReference | None,
    configs: Mapping[str, MultiKueueConfig],
    clusters: Mapping[str, bool],
) -> Activity:
    """Of a check. clusters: those that there are, and whether they are active."""
    if problem := bad_reference(parameters):
        return _bad_config(problem)
    assert parameters is not None
    config = configs.get(parameters.name)
    if config is None:
        return _bad_config(f'{MULTI_KUEUE_CONFIG.kind}.{MULTI_KUEUE_CONFIG.group} "{parameters.name}" not found')
    wanted = config.spec.clusters
    missing = [name for name in wanted if name not in clusters]
    inactive = [name for name in wanted if not clusters.get(name, True)]
    if not missing and not inactive:
        return CHECK_ACTIVE
    lists = (("Missing", missing), ("Inactive", inactive))
    message = ", ".join(f"{what} clusters: [{' '.join(names)}]" for what, names in lists if names)
    some = len(missing) + len(inactive) < len(wanted)
    return Activity(some, SOME_ACTIVE_CLUSTERS if some else NO_USABLE_CLUSTERS, message)


def bad_reference(parameters: AdmissionCheckParametersReference | None) -> str:
    """What is wrong with a check's reference to a MultiKueueConfig; empty if nothing is."""
    group, kind = MULTI_KUEUE_CONFIG.group, MULTI_KUEUE_CONFIG.kind
    if parameters is None:
        return "missing parameters reference"
    if not parameters.name:
        return "empty name: bad parameters reference"
    if parameters.api_group != group:
        return f'wrong group "{parameters.api_group}", expecting "{group}": bad parameters reference'
    if parameters.kind != kind:
        return f'wrong kind "{parameters.kind}", expecting "{kind}": bad parameters reference'
    return ""


def _bad_config(problem: str) -> Activity:
    return Activity(False, BAD_CONFIG, f"Cannot load the AdmissionChecks parameters: {problem}")


def stands_otherwise(old: MultiKueueCluster | None, new: MultiKueueCluster | None) -> bool:
    """Whether a cluster came, went, or can be used or not: not what is said of each attempt to reach it."""
    if old is None or new is None:
        return True
    before, after = find(old.status.conditions, ACTIVE), find(new.status.conditions, ACTIVE)
    return (before.status if before else "") != (after.status if after else "")
