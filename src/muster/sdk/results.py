"""Compute what a finished job returns to its caller. Pure, except for the effects of unpickling."""

from typing import Any

from muster.insight.jobs.state import Ending
from muster.sdk.calls import Outcome
from muster.sdk.core import Ended
from muster.sdk.errors import JobFailedError
from muster.sdk.worker import RETURNED


def collect_result(job: Ended) -> Any:
    """Return the result of the only worker, or the list of all workers' results by rank; None for a command.

    Raises the error of the first worker that failed, or a `JobFailedError` that describes the end of the job.
    """
    outcomes = job.outcomes
    if outcomes is None:
        _require_success(job.name, job.ending)
        return None
    failed = [
        (one.at, rank, one) for rank, one in enumerate(outcomes, job.first) if one is not None and one.how != RETURNED
    ]
    if failed:
        _, rank, first = min(failed, key=lambda each: each[:2])
        first.value(job.name, rank)
    _require_success(job.name, job.ending)
    values = [_unpack_value(job.name, rank, one) for rank, one in enumerate(outcomes, job.first)]
    return values[0] if len(values) == 1 else values


def _require_success(name: str, ending: Ending) -> None:
    if ending.code or ending.text:
        raise JobFailedError(name, ending.text, ending.code)


def _unpack_value(name: str, rank: int, outcome: Outcome | None) -> Any:
    if outcome is None:
        raise JobFailedError(name, f"rank {rank} ended well, but without a result; or that was removed since")
    return outcome.value(name, rank)
