"""Changes the number of workers of a job, by what the job was when it was read."""

from dataclasses import dataclass
from typing import Any

import click

from muster.api.batch import INDEXED, Job, JobSpec
from muster.api.elastic import Bounds, bounds_of
from muster.api.status import ApiError
from muster.cli.names.choices import get_job
from muster.cli.session import Session
from muster.insight.record import JobRecord
from muster.runtime.transport import JSON_PATCH

# How often the job may have changed between being read and being written, as a busy one does.
ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Part:
    """What changes size: a Job, or a role of a JobSet.

    name: of the job. place: that of the role among the others; None for a Job. jobs: how many Jobs the role has.
    """

    name: str
    spec: JobSpec
    bounds: Bounds | None = None
    place: int | None = None
    jobs: int = 1

    @property
    def workers(self) -> int:
        """How many it has now."""
        return self.jobs * (1 if self.spec.parallelism is None else self.spec.parallelism)


def part_of(job: JobRecord, role: str = "") -> Part:
    """The role of that name, or all there is. Raises `click.ClickException` if it is not clear which role is meant."""
    name = job.metadata.name
    if isinstance(job.source, Job):
        if role:
            raise click.ClickException(f"{name} has no roles: say muster scale {name} N")
        return Part(name, job.source.spec, bounds_of(job.metadata.annotations))
    roles = [one.name for one in job.roles]
    if role not in roles and (role or len(roles) != 1):
        what = f"{name} has no role {role}" if role else f"{name} has several roles; say which with --role"
        raise click.ClickException(f"{what}: {', '.join(roles)}")
    place = roles.index(role) if role else 0
    found = job.source.spec.replicated_jobs[place]
    return Part(name, found.template.spec, place=place, jobs=found.replicas)


async def scale(session: Session, name: str, workers: int, *, role: str = "", force: bool = False) -> Part:
    """Give a job, or a role of it, so many workers; what it was before. Raises `ApiError`, `click.ClickException`.

    What is hardly meant needs `force`.
    """
    for attempt in range(1, ATTEMPTS + 1):
        job = await get_job(session.client, name, session.namespace)
        part = part_of(job, role)
        if not force and (objection := objection_to(part, workers)):
            raise click.ClickException(f"{objection}; --force if that is meant")
        try:
            await _write(session, job, part, workers)
        except ApiError as error:
            if error.code != 409 or attempt == ATTEMPTS:
                raise
        else:
            return part
    raise AssertionError("the last attempt returns or raises")


async def _write(session: Session, job: JobRecord, part: Part, workers: int) -> None:
    """Change this very job, as it was read."""
    if part.place is None:
        await session.client.patch_object(job.kind, job.source, {"spec": size(part, workers)})
        return
    meta = job.metadata
    guard = [("replace", "/metadata/resourceVersion", meta.resource_version)]
    changes = [("add", path, value) for path, value in places(part, workers).items()]
    patch = [{"op": op, "path": path, "value": value} for op, path, value in (*guard, *changes)]
    await session.client.patch(job.kind, meta.name, patch, meta.namespace, type=JSON_PATCH)


def places(part: Part, workers: int) -> dict[str, int]:
    """What of a JobSet makes one of its roles so large, by path. Raises `click.ClickException` if that cannot be."""
    role = f"/spec/replicatedJobs/{part.place}"
    if part.jobs == 1:
        return {f"{role}/template/spec/{field}": value for field, value in size(part, workers).items()}
    each = part.workers // part.jobs if part.jobs else 1
    if workers % max(each, 1):
        raise click.ClickException(f"{part.name} has Jobs of {each} workers each: say a multiple of that")
    return {f"{role}/replicas": workers // max(each, 1)}


def size(part: Part, workers: int) -> dict[str, Any]:
    """What of the spec makes a Job so large. Raises `click.ClickException` if its completions do not allow it."""
    spec = part.spec
    if spec.completion_mode == INDEXED and spec.completions == spec.parallelism:
        return {"parallelism": workers, "completions": workers}
    if spec.completions is not None and workers > spec.completions:
        raise click.ClickException(
            f"{part.name} has {spec.completions} completions, and never more workers than that; "
            f"give it at most {spec.completions}"
        )
    return {"parallelism": workers}


def objection_to(part: Part, workers: int) -> str:
    """Why a size is hardly meant; "" if it may well be."""
    name, bounds = part.name, part.bounds
    if part.place is None and size(part, workers).get("completions") == 0:
        return f"with 0 workers {name} is complete, which cannot be taken back (`muster hold {name}` pauses it)"
    if bounds is not None and workers < bounds.least:
        return f"{name} is elastic ({bounds}), and {workers} is less than its MIN"
    return ""


def afterwards(part: Part, workers: int) -> str:
    """What becomes of the size that a person has given to a job; "" if it just stays."""
    if workers == 0 and part.spec.completion_mode == INDEXED:
        return f"{part.name} is complete with 0 workers, and stays so; `muster hold` would have paused it"
    bounds = part.bounds
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
    return f"{part.name} is elastic ({bounds}): {then}"
