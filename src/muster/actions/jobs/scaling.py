"""Change the number of workers of a job. The write fails if the job has changed since it was read."""

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from muster.actions.errors import UserError
from muster.actions.jobs.conflicts import rewrite_object
from muster.actions.server.session import Session
from muster.api.batch import INDEXED, Job, JobSpec, pods_at_once
from muster.api.ours.elastic import Bounds, bounds_of
from muster.insight.record import JobRecord


class ObjectionError(UserError):
    """A number of workers that the user probably did not intend. With `force`, the change is made anyway."""


class Part(Struct, frozen=True):
    """The part of a job that is resized: a Job, or a role of a JobSet.

    name: the name of the job.
    place: the index of the role in the JobSet; None for a Job.
    jobs: the number of Jobs of the role.
    fixed: whether the workers have a fixed WORLD_SIZE.
    sweep: whether the size is the maximum number of concurrent trials.
    """

    name: str
    spec: JobSpec
    bounds: Bounds | None = None
    place: int | None = None
    jobs: int = 1
    fixed: bool = False
    sweep: bool = False

    @property
    def each(self) -> int:
        """The number of workers of each Job of this part."""
        return pods_at_once(self.spec)

    @property
    def workers(self) -> int:
        """The current number of workers of this part."""
        return self.jobs * self.each


def part_of(job: JobRecord, role: str = "") -> Part:
    """Return the named role of a job, or its only part. Raises `UserError` if the role is unknown or ambiguous."""
    name = job.metadata.name
    if isinstance(job.source, Job):
        if role:
            raise UserError(f"{name} has no roles: say muster scale {name} N")
        bounds = bounds_of(job.metadata.annotations)
        return Part(name, job.source.spec, bounds, fixed=job.has_fixed_size, sweep=job.array is not None)
    roles = [one.name for one in job.roles]
    if role not in roles and (role or len(roles) != 1):
        what = f"{name} has no role {role}" if role else f"{name} has several roles; say which with --role"
        raise UserError(f"{what}: {', '.join(roles)}")
    place = roles.index(role) if role else 0
    replicated_job = job.source.spec.replicated_jobs[place]
    spec, jobs = replicated_job.template.spec, replicated_job.replicas
    return Part(name, spec, place=place, jobs=jobs, fixed=job.has_fixed_size)


async def _write(session: Session, job: JobRecord, part: Part, workers: int) -> None:
    """Write the new number of workers to the job.

    Raises `ApiError` (409) if the job has changed since it was read, and `UserError` if the number is impossible.
    """
    if part.place is None:
        await session.client.patch_object(job.kind, job.source, {"spec": make_size_fields(part, workers)})
        return
    changes = [{"op": "add", "path": path, "value": value} for path, value in list_size_fields(part, workers).items()]
    await session.client.edit_object(job.kind, job.source, changes)


def list_size_fields(part: Part, workers: int) -> dict[str, int]:
    """Return the new values of the JobSet's fields that set the size of a role, by JSON pointer. Raises `UserError`."""
    role = f"/spec/replicatedJobs/{part.place}"
    if part.jobs == 1 and workers == 0:
        raise UserError(f"{part.name} keeps at least 1 worker; `muster hold {part.name}` pauses it")
    if part.jobs == 1:
        return {f"{role}/template/spec/{field}": value for field, value in make_size_fields(part, workers).items()}
    jobs, rest = divmod(workers, part.each) if part.each else (part.jobs, workers)
    if rest:
        raise UserError(f"{part.name} has Jobs of {part.each} workers each: say a multiple of that")
    return {f"{role}/replicas": jobs}


def make_size_fields(part: Part, workers: int) -> dict[str, Any]:
    """Return the fields of a Job's spec for this number of workers: parallelism and, for a gang, completions.

    Raises `UserError` if the Job's completions do not allow that number.
    """
    spec = part.spec
    if spec.completion_mode == INDEXED and spec.completions == spec.parallelism and not part.sweep:
        return {"parallelism": workers, "completions": workers}
    if spec.completions is not None and workers > spec.completions:
        raise UserError(
            f"{part.name} has {spec.completions} completions, and never more workers than that; "
            f"give it at most {spec.completions}"
        )
    return {"parallelism": workers}


def objection_to(part: Part, workers: int) -> str:
    """Return the reason why this number of workers is probably a mistake; "" if it is plausible."""
    name, bounds = part.name, part.bounds
    if part.place is None and make_size_fields(part, workers).get("completions") == 0:
        return f"with 0 workers {name} is complete, which cannot be taken back (`muster hold {name}` pauses it)"
    if bounds is not None and workers < bounds.least:
        return f"{name} is elastic ({bounds}), and {workers} is less than its MIN"
    if bounds is not None and bounds.least < bounds.most < workers and workers > part.workers:
        return (
            f"{name} is elastic ({bounds}), and {workers} is more than its MAX: Muster ends what is above "
            f"{bounds.most} where the cluster is short"
        )
    if part.fixed and workers != part.workers:
        return (
            f"{name} is not elastic: its workers have fixed ranks and a fixed WORLD_SIZE, which another size would "
            "make wrong; submit it again with --elastic MIN:MAX or another --workers"
        )
    return ""


FindObjection: TypeAlias = Callable[[Part, int], str]
"""Returns why a part should not have so many workers; "" if it may."""


async def scale(
    session: Session,
    name: str,
    workers: int,
    *,
    role: str = "",
    uid: str = "",
    force: bool = False,
    find_objection: FindObjection = objection_to,
) -> Part:
    """Change the number of workers of a job or of one of its roles; return the part from before the change.

    uid: the UID of the job; "" for any job of this name.
    force: whether to change the size in spite of an objection.
    find_objection: returns the caller's objection to a size of the part, just before the write; "" if there is none.

    Raises `ApiError`, `ObjectionError`, `UserError`.
    """

    async def resize(job: JobRecord) -> Part:
        if job.end is not None:
            raise UserError(f"{name} has ended already")
        part = part_of(job, role)
        if not force and (objection := find_objection(part, workers)):
            raise ObjectionError(objection)
        await _write(session, job, part, workers)
        return part

    return await rewrite_object(session.client, name, session.namespace, resize, uid)


def explain_later_sizes(part: Part, workers: int) -> str:
    """Return a sentence about how the number of workers may change later; "" if it will not change."""
    if workers == 0 and part.place is None and part.spec.completion_mode == INDEXED:
        return f"{part.name} is complete with 0 workers, and stays so; `muster hold` would have paused it"
    bounds = part.bounds
    if bounds is None:
        return ""
    if workers < bounds.least:
        then = f"below {bounds.least} it stays at this size until it is scaled again"
    elif workers > bounds.most:
        then = f"above {bounds.most} it does not grow by itself, but may shrink when another job needs its room"
    elif bounds.least == bounds.most:
        return ""
    else:
        then = "Muster may change its size again, as quota and nodes allow"
    return f"{part.name} is elastic ({bounds}): {then}"
