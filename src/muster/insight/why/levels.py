"""Describe the six levels that a job passes, in their order. Pure."""

from collections.abc import Callable, Sequence

from muster.insight.why.cluster import describe_cluster
from muster.insight.why.placement import describe_placement
from muster.insight.why.quota import describe_quota
from muster.insight.why.readings import JobLevel, JobReadings
from muster.insight.why.size import describe_size
from muster.insight.why.start import describe_readiness, describe_start

_LEVELS: dict[str, Callable[[JobReadings], JobLevel]] = {
    "quota": describe_quota,
    "cluster": describe_cluster,
    "placement": describe_placement,
    "readiness": describe_readiness,
    "start": describe_start,
    "size": describe_size,
}


def describe_levels(readings: JobReadings) -> list[JobLevel]:
    """Return all levels of a job, in order. A level after the first one that holds the job has the state "later".

    The levels of the cluster and of the size keep their own state.
    """
    levels: list[JobLevel] = []
    held = False
    for name, describe in _LEVELS.items():
        level = describe(readings)
        if held and name not in ("cluster", "size"):
            is_group_start = name == "start" and readings.job is not None and readings.job.group_start is not None
            level = JobLevel(name, "later", level.text if is_group_start else "")
        held = held or level.state == "here"
        levels.append(level)
    return levels


def join_levels(here: Sequence[JobLevel], levels: Sequence[JobLevel]) -> list[JobLevel]:
    """Return the levels of a job that runs in another cluster: the manager's levels, with the pods' levels from there.

    here: the manager's levels.
    levels: the worker cluster's levels.
    """
    of_pods = {level.name: level for level in levels if level.name in ("placement", "readiness", "start")}
    return [of_pods.get(level.name, level) for level in here]
