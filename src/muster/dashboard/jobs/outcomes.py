"""Describe what happens to a job or CronJob if the viewer changes it. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.insight.forecasts.plan import ObjectPlan
from muster.insight.forecasts.sentences import describe_plan, describe_verdict
from muster.insight.jobs.failures import count_of
from muster.insight.text import count_things, format_age, format_span, list_names, make_sentence
from muster.insight.why import JobReadings
from muster.insight.why.quota import describe_quota


def describe_cancel(readings: JobReadings, *, is_embedded: bool) -> list[str]:
    """Return sentences about the effect of cancelling a job.

    is_embedded: whether the cluster is embedded, and keeps cancelled jobs.
    """
    said = [*_describe_workers(readings), *_describe_given_back(readings)]
    kept = "The record and the output of the job stay as long as those of a job that ended by itself."
    return [*said, kept if is_embedded else "This cluster deletes the job, with its output."]


def describe_cancel_trials(readings: JobReadings) -> list[str]:
    """Return sentences about the effect of cancelling some trials of a sweep."""
    seconds = max((pod.spec.termination_grace_period_seconds or 0 for pod in readings.live), default=0)
    time = f"within {format_span(seconds)}" if seconds else "at once"
    return [f"A trial that runs ends {time}, and one that waits never starts. The other trials continue."]


def describe_hold(readings: JobReadings) -> list[str]:
    """Return sentences about the effect of holding a job."""
    said = [*_describe_workers(readings, ", and starts from its beginning once the job is released")]
    return [*said, *_describe_given_back(readings), "The job does not start until somebody releases it."]


def describe_release(plan: ObjectPlan | None, now: datetime) -> list[str]:
    """Return sentences about the effect of releasing a job.

    plan: the forecast; None if there is none.
    """
    return ["The job queues again.", *([describe_forecast(plan, now)] if plan is not None else ())]


def describe_forecast(plan: ObjectPlan, now: datetime, who: str = "It") -> str:
    """Return a forecast as lines: a sentence with its verdict, then the reasons.

    who: the subject of the sentence.
    """
    reasons = [f"{about}: {text}" if about else text for about, text in describe_plan(plan, now)]
    return "\n".join([f"{who} {describe_verdict(plan)}.", *reasons])


def describe_cron_hold(unfinished: Sequence[str]) -> list[str]:
    """Return sentences about the effect of holding a CronJob.

    unfinished: the names of its jobs that have not ended.
    """
    going_on = count_things(len(unfinished), "job continues", "jobs continue")
    here = f"{going_on}: {list_names(unfinished)}." if unfinished else "None of its jobs runs."
    return ["It starts no jobs until somebody releases it.", here]


def describe_cron_cancel(unfinished: Sequence[str], *, is_embedded: bool) -> list[str]:
    """Return sentences about the effect of cancelling a CronJob.

    unfinished: the names of its jobs that have not ended.
    is_embedded: whether the cluster is embedded, and keeps cancelled jobs.
    """
    said = ["It starts no jobs until somebody releases it."]
    if not unfinished:
        return [*said, "None of its jobs runs."]
    ended = count_things(len(unfinished), "job is cancelled", "jobs are cancelled")
    kept = (
        "The record and the output of jobs stay."
        if is_embedded
        else "This cluster deletes these jobs, with their output."
    )
    return [*said, f"{ended}: {list_names(unfinished)}.", kept]


def describe_cron_release(released: Mapping[str, Any], policy: str, now: datetime) -> list[str]:
    """Return sentences about when a CronJob starts jobs after it is released.

    released: the CronJob after the release, as `describe_cron_job` returns it.
    policy: the concurrencyPolicy of the CronJob.
    """
    at, running = released["nextStart"], released["running"]
    if not released["canStart"]:
        return [f"It starts no jobs. {make_sentence(released['problem'])}"]
    if at is None:
        return ["It starts jobs by its schedule again."]
    if at > now:
        return [f"It starts jobs again, the next one in {format_age(now, at)}."]
    missed = f"for the start that it missed {format_age(at, now)} ago"
    if running and policy == "Forbid":
        return [f"It starts a job once {list_names(running)} has ended, {missed}."]
    if running and policy == "Replace":
        return [f"It ends {list_names(running)}, and starts a job at once, {missed}."]
    return [f"It starts a job at once, {missed}."]


def _describe_workers(readings: JobReadings, becomes: str = "") -> list[str]:
    """Return a sentence about how the running workers end, or that no worker runs.

    becomes: the end of the sentence, about what happens next.
    """
    live = readings.live
    if not live:
        return ["None of its workers runs."]
    seconds = max((pod.spec.termination_grace_period_seconds or 0 for pod in live), default=0)
    time = f" within {format_span(seconds)}" if seconds else " at once"
    who = "Its worker" if len(live) == 1 else f"Each of its {len(live)} workers"
    return [f"{who}{_name_nodes(readings)} ends{time}{becomes}."]


def _name_nodes(readings: JobReadings) -> str:
    nodes: Sequence[str] = sorted({pod.spec.node_name for pod in readings.live if pod.spec.node_name})
    if not nodes:
        return ""
    return f" (on {nodes[0]})" if len(nodes) == 1 else f" (on {count_of(len(nodes), 'node')})"


def _describe_given_back(readings: JobReadings) -> list[str]:
    """Return a sentence about the quota that the job will release; empty if it holds none."""
    quota = readings.quota_state
    level = describe_quota(readings)
    if quota is None or quota.stopped or quota.finished or level.state != "done" or not level.lines:
        return []
    return [f"ClusterQueue {quota.cluster_queue} gets its quota back: {level.lines[0]}."]
