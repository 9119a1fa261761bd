"""Describe the level of the cluster: which cluster runs the job, if MultiKueue has several (Kueue KEP-693). Pure."""

from collections.abc import Sequence

from muster.insight.quota.state import find_nominated_clusters
from muster.insight.text import format_age
from muster.insight.why.readings import JobLevel, JobReadings


def describe_cluster(readings: JobReadings) -> JobLevel:
    """Return the level that says which cluster runs the job, or which clusters are nominated for it.

    A job that MultiKueue does not dispatch gets a level with the state "none".
    """
    status = readings.workload.status if readings.workload is not None else None
    if status is not None and status.cluster_name:
        return _describe_home(readings, status.cluster_name)
    if status is not None and status.nominated_cluster_names:
        names, barred = find_nominated_clusters(status)
        first = ("the first that has quota for all of it runs it",) if len(names) > 1 else ()
        text = f"it is tried in {', '.join(names)}" if names else "no cluster can take it"
        return JobLevel(
            "cluster", "here", text, (*first, *_describe_unreachable(readings, names), *filter(None, (barred,)))
        )
    if readings.job is not None and readings.job.remote_counts is not None:
        names = tuple(one.name for one in readings.clusters)
        if readings.quota_state is not None and readings.quota_state.word == "Checking":
            return JobLevel("cluster", "here", "no cluster is asked yet", tuple(_describe_unreachable(readings, names)))
        return JobLevel("cluster", "later", f"another one, of {', '.join(names)}" if names else "another one")
    return JobLevel("cluster", "none", "this one")


def _describe_home(readings: JobReadings, name: str) -> JobLevel:
    """Return the level that says which cluster runs the job, and for how long the cluster has been unreachable.

    name: the name of the cluster.
    """
    home = next((one for one in readings.clusters if one.name == name), None)
    if home is None or home.word != "Lost":
        return JobLevel("cluster", "done", f"it runs in {name}")
    text = f"it runs in {name}, which has been out of reach for {format_age(home.since, readings.now)}"
    return JobLevel("cluster", "here", text, (home.reason, "if that lasts, the job starts again in another cluster"))


def _describe_unreachable(readings: JobReadings, names: Sequence[str]) -> list[str]:
    """Return a line for each of these clusters that cannot be reached, with the reason."""
    return [f"{one.name}: {one.reason}" for one in readings.clusters if one.name in names and one.word != "Connected"]
