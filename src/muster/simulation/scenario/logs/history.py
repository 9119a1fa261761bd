"""Read the jobs that ran in a cluster, as `muster history -o jsonl` prints them."""

from collections.abc import Iterable, Iterator

import msgspec

from muster.api.values.quantity import QuantityError, amount
from muster.insight.history.runs import Run
from muster.simulation.scenario.logs.jobs import LeftOut, LogError, Role, TracedJob


def read_history(lines: Iterable[str], left_out: LeftOut) -> Iterator[TracedJob]:
    """Yield the jobs that ran. Their queue is their LocalQueue, as `namespace/name`.

    Raises:
        LogError: a line is no run.
    """
    decoder = msgspec.json.Decoder(Run)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            run = decoder.decode(line)
            job = _read_run(run)
        except (msgspec.MsgspecError, QuantityError) as error:
            raise LogError(number, f"is no run of `muster history -o jsonl`: {error}") from None
        if job is None:
            left_out.jobs += 1
        else:
            yield job


def _read_run(run: Run) -> TracedJob | None:
    if run.started is None or run.ended < run.started:
        return None
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
    """Return the pods of a run; of one that an older version recorded, only their CPUs are known."""
    if run.pod_requests:
        return tuple(
            Role(one.pods, tuple(sorted((name, amount(name, text)) for name, text in one.requests.items())))
            for one in run.pod_requests
            if one.pods > 0
        )
    workers = max(run.workers, 1)
    cpus = run.requested_cpus
    return (Role(workers, None if cpus is None else (("cpu", -int(-cpus * 1000 // workers)),)),)
