"""What a job that has ended gives its caller. Pure, but for what unpickling does."""

from typing import Any

from muster.insight.jobstate import Ending
from muster.sdk.calls import Outcome
from muster.sdk.core import Ended
from muster.sdk.errors import JobFailedError
from muster.sdk.worker import RETURNED


def result(job: Ended) -> Any:
    """The value of one worker, or the list of several workers' values by rank; None of a command.

    Raises what the first rank that failed has raised, or `JobFailedError` with what is known of the end.
    """
    found = job.outcomes
    if found is None:
        _require_success(job.name, job.ending)
        return None
    failed = [
        (one.at, rank, one) for rank, one in enumerate(found, job.first) if one is not None and one.how != RETURNED
    ]
    if failed:
        _, rank, first = min(failed, key=lambda each: each[:2])
        first.value(job.name, rank)
    _require_success(job.name, job.ending)
    values = [_value(job.name, rank, one) for rank, one in enumerate(found, job.first)]
    return values[0] if len(values) == 1 else values


def _require_success(name: str, ending: Ending) -> None:
    if ending.code or ending.text:
        raise JobFailedError(name, ending.text, ending.code)


def _value(name: str, rank: int, outcome: Outcome | None) -> Any:
    if outcome is None:
        raise JobFailedError(name, f"rank {rank} ended well, but without a result; or that was removed since")
    return outcome.value(name, rank)
