"""Changes the number of workers of a job, by what the job was when it was read."""

from typing import Any

import click

from muster.api.batch import INDEXED, JOB, Job
from muster.api.elastic import bounds_of
from muster.api.status import ApiError
from muster.cli.names.choices import get_job
from muster.cli.session import Session

# How often the job may have changed between being read and being written, as a busy one does.
ATTEMPTS = 10


async def scale(session: Session, name: str, workers: int, *, force: bool = False) -> Job:
    """Give a job so many workers; the job as it was before. Raises `ApiError`, `click.ClickException`.

    What is hardly meant needs `force`.
    """
    for attempt in range(1, ATTEMPTS + 1):
        job = await get_job(session.client, name, session.namespace)
        if not force and (objection := objection_to(job, workers)):
            raise click.ClickException(f"{objection}; --force if that is meant")
        try:
            await session.client.patch_object(JOB, job, {"spec": size(job, workers)})
        except ApiError as error:
            if error.code != 409 or attempt == ATTEMPTS:
                raise
        else:
            return job
    raise AssertionError("the last attempt returns or raises")


def size(job: Job, workers: int) -> dict[str, Any]:
    """What of the spec makes a job so large. Raises `click.ClickException` if its completions do not allow it."""
    spec = job.spec
    if spec.completion_mode == INDEXED and spec.completions == spec.parallelism:
        return {"parallelism": workers, "completions": workers}
    if spec.completions is not None and workers > spec.completions:
        raise click.ClickException(
            f"{job.metadata.name} has {spec.completions} completions, and never more workers than that; "
            f"give it at most {spec.completions}"
        )
    return {"parallelism": workers}


def objection_to(job: Job, workers: int) -> str:
    """Why a size is hardly meant; "" if it may well be."""
    name, bounds = job.metadata.name, bounds_of(job.metadata.annotations)
    if size(job, workers).get("completions") == 0:
        return f"with 0 workers {name} is complete, which cannot be taken back (`muster hold {name}` pauses it)"
    if bounds is not None and workers < bounds.least:
        return f"{name} is elastic ({bounds}), and {workers} is less than its MIN"
    return ""


def afterwards(job: Job, workers: int) -> str:
    """What becomes of the size that a person has given to a job; "" if it just stays."""
    if workers == 0 and job.spec.completion_mode == INDEXED:
        return f"{job.metadata.name} is complete with 0 workers, and stays so; `muster hold` would have paused it"
    bounds = bounds_of(job.metadata.annotations)
    if bounds is None:
        return ""
    if workers < bounds.least:
        then = f"below {bounds.least} it stays at this size until it is scaled again"
    elif workers > bounds.most:
        then = f"above {bounds.most} it does not grow by itself, but may be shrunk where the cluster is short"
    elif bounds.least == bounds.most:
        return ""
    else:
        then = "it may be moved again, as room allows"
    return f"{job.metadata.name} is elastic ({bounds}): {then}"
