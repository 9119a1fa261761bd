"""Read the history of jobs that `muster history -o jsonl` prints."""

from collections.abc import Iterable, Iterator

import msgspec

from muster.api.values.quantity import QuantityError, parse_amount
from muster.insight.history.runs import PodRequests, Run
from muster.simulation.scenario.logs.cells import MOST_AMOUNT
from muster.simulation.scenario.logs.jobs import MOST, FormError, LeftOut, Role, TracedJob


class _ValueError(ValueError):
    """A run with an invalid value."""


def read_history(lines: Iterable[str], left_out: LeftOut) -> Iterator[TracedJob]:
    """Yield the jobs in the output of `muster history -o jsonl` that ran; `left_out` counts the others.

    Their queue is their LocalQueue, as `namespace/name`. Raises `LogError` if a line is not a run.
    """
    decoder = msgspec.json.Decoder(Run)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            run = decoder.decode(line)
            job = _read_run(run)
        except (msgspec.MsgspecError, QuantityError, _ValueError) as error:
            raise FormError(number, f"is no run of `muster history -o jsonl`: {error}") from None
        if job is None:
            left_out.jobs += 1
        else:
            yield job


def _read_run(run: Run) -> TracedJob | None:
    if run.started is None or run.ended < run.started:
        return None
    if abs(run.priority or 0) > MOST or (run.limit_seconds or 0) < 0:
        raise _ValueError("its priority is too large, or its limit negative")
    return TracedJob(
        run.submitted.timestamp(),
        (run.ended - run.started).total_seconds(),
        run.name,
        _read_roles(run),
        None if run.limit_seconds is None else float(run.limit_seconds),
        f"{run.namespace}/{run.queue}" if run.queue else "",
        run.owner,
        run.priority,
    )


def _read_roles(run: Run) -> tuple[Role, ...]:
    """Return the pods of a run. A run from an older version has only its total of CPUs, or no requests."""
    if any(one.pods > 0 for one in run.pod_requests):
        return tuple(Role(one.pods, _read_requests(one)) for one in run.pod_requests if 0 < one.pods <= MOST)
    workers = min(max(run.workers, 1), MOST)
    cpus = run.requested_cpus
    return (Role(workers, None if cpus is None else (("cpu", -int(-cpus * 1000 // workers)),)),)


def _read_requests(pods: PodRequests) -> tuple[tuple[str, int], ...]:
    amounts = tuple(sorted((name, parse_amount(name, text)) for name, text in pods.requests.items()))
    if any(not 0 <= number < MOST_AMOUNT for _, number in amounts):
        raise _ValueError("a request is negative or too large")
    return amounts
