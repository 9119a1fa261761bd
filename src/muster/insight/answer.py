"""What `why` says of a job, for people and for programs. Pure."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from muster.api.values.quantity import format_amount
from muster.insight.jobstate import JobState
from muster.insight.why import JobReadings, Level, failed, when

_MARKS = {"done": "ok", "here": ">>", "later": "", "none": "-"}


def lines(facts: JobReadings, found: Sequence[Level]) -> list[str]:
    """In what state it is, where it stands on each level, what failed, and when it starts."""
    state = facts.state
    far = str(state.count) if state.count is not None else f"{state.ready} of {state.wanted} ready"
    count = f" ({far})" if state.word in ("Running", "Starting") else ""
    reason = f": {state.reason}" if state.finished and state.reason else ""
    never = f"; it {facts.verdict.sentence}" if facts.verdict.sentence else ""
    lines = [f"{facts.name}: {state.word.lower()}{count}{reason}{never}"] + ([] if state.finished else [""])
    for level in found if not state.finished else ():
        lines.append(f"{_MARKS[level.state]:2} {level.name:<10} {level.text}".rstrip())
        lines += [f"{'':13} {detail}" for detail in level.details]
    lines += _told(failed(facts), state)
    if facts.estimate is not None:
        lines.append(f"   {'starts':<10} {when(facts.estimate, facts.now)}")
    return lines


def _told(failures: list[str], state: JobState) -> list[str]:
    """What became of pods that failed, also while the job goes on."""
    if state.finished:
        return ["", *failures] if failures and state.word == "Failed" else []
    return [f"   {'failed' if number == 0 else '':<10} {text}" for number, text in enumerate(failures)]


def document(facts: JobReadings, found: Sequence[Level]) -> dict[str, Any]:
    """All of it, for programs."""
    estimate, stands = facts.estimate, facts.quota_state
    starts = (
        {"at": estimate.at, "certainty": str(estimate.certainty), "because": estimate.because} if estimate else None
    )
    amounts = ("asked", "nominal", "used", "available", "missing")
    return {
        "namespace": facts.namespace,
        "name": facts.name,
        "state": facts.state.word,
        "ready": facts.state.ready,
        "wanted": facts.state.wanted,
        "reason": facts.state.reason,
        "never": facts.verdict.text if facts.verdict.certain else "",
        "awaits": facts.verdict.awaits,
        "queue": stands.queue if stands is not None else "",
        "clusterQueue": facts.cluster_queue,
        "position": stands.position if stands is not None else None,
        "ahead": [
            {"namespace": one.metadata.namespace, "name": one.metadata.name, "priority": one.priority}
            for one in facts.ahead or ()
        ],
        "needs": [
            {"flavor": need.flavor, "resource": need.resource}
            | {what: format_amount(need.resource, getattr(need, what)) for what in amounts}
            for need in facts.needs
        ],
        "holders": [
            {"name": one.name, "clusterQueue": one.queue, "since": one.since}
            | {"usage": {resource: format_amount(resource, n) for resource, n in one.usage.items()}}
            for one in facts.holders
        ],
        "starts": starts,
        "levels": [asdict(level) for level in found],
    }
