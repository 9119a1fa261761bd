"""Render the answer of `muster why` about one job, as lines for users and as a document for programs. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from muster.api.values.quantity import format_amount
from muster.insight.jobs.state import JobState
from muster.insight.why.readings import JobLevel, JobReadings
from muster.insight.why.sentences import describe_estimate, describe_failures, describe_interruptions, describe_notices

_MARKS = {"done": "ok", "here": ">>", "later": "", "none": "-"}


def render_lines(readings: JobReadings, levels: Sequence[JobLevel]) -> list[str]:
    """Return the job's state, each level, the failures, and when the job will start, line by line."""
    state = readings.state
    progress = str(state.count) if state.count is not None else f"{state.ready} of {state.wanted} ready"
    count = f" ({progress})" if state.word in ("Running", "Starting") else ""
    tells_end = state.finished or state.word == "Cancelling"
    reason = f": {state.reason}" if tells_end and state.reason else ""
    never = f"; it {readings.verdict.sentence}" if readings.verdict.sentence else ""
    lines = [f"{readings.name}: {state.word.lower()}{count}{reason}{never}"] + ([] if state.finished else [""])
    for level in levels if not state.finished else ():
        lines.append(f"{_MARKS[level.state]:2} {level.name:<10} {level.text}".rstrip())
        lines += [f"{'':13} {detail}" for detail in level.lines]
    lines += [f"   interrupted {text}" for text in describe_interruptions(readings)]
    lines += _render_failures(describe_failures(readings), state)
    if readings.estimate is not None:
        lines.append(f"   {'starts':<10} {describe_estimate(readings.estimate, readings.now)}")
    if failure := describe_notices(readings):
        lines += ["", failure] if state.finished else [f"   {'notices':<10} {failure}"]
    return lines


def _render_failures(failures: list[str], state: JobState) -> list[str]:
    """Return the lines about failed pods; for a failed job, as a block of their own.

    The result is empty for a cancelled or completed job: the user ended the pods, or their failures no longer matter.
    """
    if state.word == "Cancelling":
        return []
    if state.finished:
        return ["", *failures] if failures and state.word == "Failed" else []
    return [f"   {'failed' if number == 0 else '':<10} {text}" for number, text in enumerate(failures)]


def make_document(readings: JobReadings, levels: Sequence[JobLevel]) -> dict[str, Any]:
    """Return the answer about a job as values for JSON."""
    estimate, quota_state = readings.estimate, readings.quota_state
    starts = (
        {"at": estimate.at, "certainty": str(estimate.certainty), "because": estimate.because} if estimate else None
    )
    amounts = ("asked", "nominal", "used", "available", "missing")
    return {
        "namespace": readings.namespace,
        "name": readings.name,
        "state": readings.state.word,
        "ready": readings.state.ready,
        "wanted": readings.state.wanted,
        "reason": readings.state.reason,
        "never": readings.verdict.text if readings.verdict.certain else "",
        "awaits": readings.verdict.awaits,
        "queue": quota_state.queue if quota_state is not None else "",
        "clusterQueue": readings.cluster_queue,
        "position": quota_state.position if quota_state is not None else None,
        "ahead": [
            {"namespace": one.metadata.namespace, "name": one.metadata.name, "priority": one.priority}
            for one in readings.ahead or ()
        ],
        "needs": [
            {"flavor": need.flavor, "resource": need.resource}
            | {what: format_amount(need.resource, getattr(need, what)) for what in amounts}
            for need in readings.needs
        ],
        "holders": [
            {"name": one.name, "clusterQueue": one.queue, "since": one.since}
            | {"usage": {resource: format_amount(resource, n) for resource, n in one.usage.items()}}
            for one in readings.holders
        ],
        "interruptions": readings.job.interruptions if readings.job is not None else 0,
        "lastInterruption": readings.job.last_interruption if readings.job is not None else "",
        "notices": describe_notices(readings),
        "starts": starts,
        "levels": [asdict(level) | {"details": level.lines} for level in levels],
    }
