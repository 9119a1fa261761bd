"""Decide which changes a viewer can make to a job now, and which commands do the same. Pure."""

import shlex
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from muster.actions.jobs.altering import Alteration, find_obstacle
from muster.actions.jobs.retrying import list_unfinished_ranks
from muster.actions.jobs.scaling import Part, part_of
from muster.api.batch import CronJob
from muster.api.kueue.names import JOB_MIN_PARALLELISM
from muster.insight.jobs.deferral import describe_deferral
from muster.insight.record import JobRecord
from muster.insight.why import JobReadings

_HELD = ("Held", "Suspended")

TRIALS = "cancel-trials"
"""The choice that ends some trials of a sweep, which only the Job controller of Muster does."""


class JobChoice(Struct, frozen=True):
    """A change of a job that a page offers.

    name: the last segment of its address.
    ends: whether the change ends the job.
    """

    name: str
    title: str
    ends: bool = False


def list_choices(readings: JobReadings, now: datetime) -> list[JobChoice]:
    """Return the changes that a page offers for a job in its current state; changes that end the job come last.

    A finished job has only the retry of a sweep's unfinished trials, if any. A job that is ending has none.
    """
    job, word = readings.job, readings.state.word
    if readings.state.finished:
        can_retry = (
            job is not None and job.array is not None and job.end is not None and bool(list_unfinished_ranks(job))
        )
        return [JobChoice("retry", "Retry the unfinished trials")] if can_retry else []
    if word in ("Cancelling", "Deleting"):
        return []
    choices = []
    is_held, is_deferred = word in _HELD, bool(describe_deferral(job))
    if is_held or is_deferred:
        choices.append(JobChoice("release", "Release"))
    if not is_held:
        choices.append(JobChoice("hold", "Hold"))
    if job is not None and list_parts(job):
        choices.append(JobChoice("scale", "Scale"))
    if job is not None and not find_obstacle(job, Alteration(priority="any"), now):
        choices.append(JobChoice("priority", "Change the priority"))
    if job is not None and job.array is not None and not job.manager and job.remote_counts is None:
        choices.append(JobChoice(TRIALS, "Cancel trials", ends=True))
    return [*choices, JobChoice("cancel", "Cancel", ends=True)]


def list_parts(job: JobRecord) -> dict[str, Part]:
    """Return the parts of a job that can be resized, by role; the key "" for a job without roles.

    The result is empty if the job has ended or is cancelled, if it may have started with fewer pods than requested, or
    if its parts have fixed sizes.
    """
    can_start_with_fewer = JOB_MIN_PARALLELISM in job.metadata.annotations  # its queue refuses another size then
    if job.end is not None or job.is_cancelled or (can_start_with_fewer and not job.suspended):
        return {}
    names = [role.name for role in job.roles]
    parts = {name: part_of(job, name) for name in names} if names != [""] else {"": part_of(job)}
    return {name: part for name, part in parts.items() if not part.fixed}


def list_commands(readings: JobReadings) -> list[str]:
    """Return the commands that show and change what the page of a job does."""
    name, job, state = readings.name, readings.job, readings.state
    where = f"-n {shlex.quote(readings.namespace)}"
    target = f"{shlex.quote(name)} {where}"
    commands = [f"muster why {target}", f"muster why {target} --history"]
    if job is not None:
        commands.append(f"muster logs -f {target}" if not state.finished else f"muster logs {target}")
    if state.finished:
        retries = job is not None and job.array is not None and job.end is not None and list_unfinished_ranks(job)
        return [*commands, *([f"muster retry {target}"] if retries else []), f"muster cancel --delete {target}"]
    if state.word in (*_HELD,) or describe_deferral(job):
        commands.append(f"muster release {target}")
    else:
        commands.append(f"muster hold {target}")
    if job is not None and (parts := list_parts(job)):
        role = next(iter(parts))
        commands.append(f"muster scale {target.replace(' ', ' N ', 1)}{f' --role {shlex.quote(role)}' if role else ''}")
    return [*commands, f"muster cancel {target}"]


def list_other_commands(name: str, namespace: str) -> list[str]:
    """Return the commands that show the records about a name that no job has."""
    target = f"{shlex.quote(name)} -n {shlex.quote(namespace)}"
    return [f"muster why {target} --history", f"muster history {target}"]


def list_cron_choices(cron_job: CronJob, unfinished: Sequence[str]) -> list[JobChoice]:
    """Return the changes that a page offers for a CronJob in its current state; changes that end jobs come last.

    unfinished: the names of its jobs that have not ended.
    """
    is_held = bool(cron_job.spec.suspend)
    choices = [JobChoice("release", "Release") if is_held else JobChoice("hold", "Hold")]
    can_cancel = not is_held or bool(unfinished)
    return [*choices, *([JobChoice("cancel", "Cancel", ends=True)] if can_cancel else [])]


def list_cron_commands(cron_job: CronJob, *, has_namesake: bool) -> list[str]:
    """Return the commands that show and change what the page of a CronJob does.

    has_namesake: whether a job has the same name as the CronJob. Muster's commands would then apply to the job, so that
    kubectl commands are returned.
    """
    name, namespace = shlex.quote(cron_job.metadata.name), shlex.quote(cron_job.metadata.namespace)
    is_held = bool(cron_job.spec.suspend)
    if has_namesake:
        patch = f'-p \'{{"spec":{{"suspend":{"false" if is_held else "true"}}}}}\''
        return [
            f"kubectl describe cronjob {name} -n {namespace}",
            f"kubectl patch cronjob {name} -n {namespace} {patch}",
        ]
    hold = "release" if is_held else "hold"
    return [f"muster {command} {name} -n {namespace}" for command in ("why", hold, "cancel")]
