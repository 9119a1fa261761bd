"""The pages of CronJobs: when each starts jobs, its last start, its running jobs, and changes of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.actions.jobs.cancelling import cancel_cron_job, find_right_to_cancel, list_unfinished_jobs
from muster.actions.jobs.holding import set_starting
from muster.actions.rights import Right
from muster.api.batch import CRON_JOB, JOB, CronJob
from muster.api.status import ApiError
from muster.api.values.yaml_encode import dump_yaml
from muster.dashboard.jobs.choices import JobChoice, list_cron_choices, list_cron_commands
from muster.dashboard.jobs.outcomes import describe_cron_cancel, describe_cron_hold, describe_cron_release
from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.pages.deeds import Question, Subject, make_deed
from muster.dashboard.pages.identity import read_names
from muster.dashboard.pages.jobs import parse_labels, read_or_explain
from muster.dashboard.rights import find_refusal, require_right
from muster.dashboard.visits import Deed, Page, PageError, Visit
from muster.insight.jobs.cronjobs import describe_cron_job
from muster.insight.jobs.disclosure import hide_secrets
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.jobs.events import read_events_about
from muster.insight.reader.jobs.job import find
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.reader.listing.views import JOB_LINES
from muster.insight.reader.visible import list_visible
from muster.runtime.client import Client

_FILTERS = ("namespace", "text", "labels")
_RIGHTS = (Right("patch", CRON_JOB),)
_CANCEL = "cancel"
_FORBIDDEN, _CONFLICT = 403, 409
_NAMESAKE_SECONDS = 60.0


async def view_cron_jobs(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the list of CronJobs that the filters select, by namespace and name.

    Raises `PageError`, `ApiError`.
    """
    only = {name: visit.query.get(name, "") for name in _FILTERS}
    unseen: list[str] = []
    reading = _list_cron_jobs(visit, only["namespace"], unseen.append)
    cron_jobs = await read_or_explain(visit, reading, only["namespace"])
    matcher = parse_labels(only["labels"])
    chosen = [
        one
        for one in cron_jobs
        if only["text"].lower() in one.metadata.name.lower() and matcher.matches(one.metadata.labels)
    ]
    listing = cut(sorted(chosen, key=lambda one: (one.metadata.namespace, one.metadata.name)), read_list_query(visit))
    return {
        "only": only,
        "namespaces": sorted({one.metadata.namespace for one in cron_jobs}),
        "listing": listing,
        "rows": await describe_cron_jobs(visit, listing.items),
        "all": len(cron_jobs),
        "unseen": unseen,
    }


async def _list_cron_jobs(visit: Visit, namespace: str, say: Callable[[str], None]) -> list[CronJob]:
    if namespace:
        return (await visit.copy.list(CRON_JOB, namespace)).items
    cron_jobs, _ = await list_visible(visit.copy, CRON_JOB, visit.viewer.namespace, say, "CronJobs")
    return cron_jobs


async def describe_cron_jobs(visit: Visit, cron_jobs: Sequence[CronJob]) -> list[dict[str, Any]]:
    """Return descriptions of CronJobs in the form that `muster why` shows. Raises `ApiError`."""
    needs_zone = any(one.spec.time_zone is None for one in cron_jobs)
    is_here = needs_zone and await is_embedded(visit.viewer.client)
    return [describe_cron_job(one, visit.now, on_this_machine=is_here) for one in cron_jobs]


async def find_cron_job(visit: Visit, namespace: str, name: str) -> CronJob | None:
    """Return the CronJob with this name; None if it does not exist, or the viewer may not see it."""
    listed = await list_or_none(visit.copy, CRON_JOB, namespace)
    if listed is not None:
        return next((one for one in listed if one.metadata.name == name), None)
    return await get_or_none(visit.viewer.client, CRON_JOB, name, namespace)


async def has_cron_job(visit: Visit, namespace: str, name: str) -> bool:
    """Return whether a CronJob has the same name as a job; False while that is unknown.

    The result is cached for a minute, because a job's page does not watch CronJobs.
    """

    async def find_it() -> bool:
        return await get_or_none(visit.viewer.client, CRON_JOB, name, namespace) is not None

    return bool(await visit.copy.answers.ask(("has CronJob", namespace, name), _NAMESAKE_SECONDS, find_it))


async def view_cron_job(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of one CronJob.

    Raises `PageError` if it does not exist, and `ApiError`.
    """
    namespace, name = read_names(visit, "CronJob")
    cron_job = await find_cron_job(visit, namespace, name)
    if cron_job is None:
        raise _make_missing_error(namespace, name)
    client = visit.viewer.client
    has_namesake = await _has_namesake(visit, namespace, name)
    jobs = await _list_unfinished(visit.copy, cron_job)
    choices, jobs_refusal = await _divide_by_right(visit, cron_job, jobs)
    document = await get_or_none(client, CRON_JOB.seen_as(dict), name, namespace)
    return {
        "name": name,
        "namespace": namespace,
        "cron_job": (await describe_cron_jobs(visit, [cron_job]))[0],
        "unfinished": jobs.names,
        "has_namesake": has_namesake,
        "choices": choices,
        "refusal": await find_refusal(visit, _RIGHTS, name, namespace),
        "jobs_refusal": jobs_refusal,
        "commands": list_cron_commands(cron_job, has_namesake=has_namesake),
        "events": await read_events_about(client, namespace, [cron_job.metadata.uid]),
        "manifest": dump_yaml(hide_secrets(document)) if document is not None else "",
    }


async def _has_namesake(visit: Visit, namespace: str, name: str) -> bool:
    """Return whether a job or Workload that the viewer may see has the same name as a CronJob."""
    try:
        read = await find(visit.copy, namespace, name)
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        return False
    return read.job is not None or read.workload is not None


class _Unfinished(Struct, frozen=True):
    """The jobs of a CronJob that have not ended.

    names: the names of the jobs; taken from the CronJob's status if the viewer may not list jobs.
    are_visible: whether the viewer may list the jobs.
    """

    names: Sequence[str]
    are_visible: bool = True


async def _list_unfinished(client: Client, cron_job: CronJob) -> _Unfinished:
    jobs = await list_or_none(client, JOB_LINES, cron_job.metadata.namespace)
    if jobs is None:
        return _Unfinished([one.name for one in cron_job.status.active], are_visible=False)
    return _Unfinished([one.metadata.name for one in list_unfinished_jobs(jobs, cron_job)])


async def _find_jobs_right(visit: Visit, cron_job: CronJob, jobs: _Unfinished) -> tuple[Right, str] | None:
    """Return the right on jobs that cancelling a CronJob needs, and the object's name; None if it needs no right.

    The right on the first job stands for the rights on all of them.
    """
    if not jobs.are_visible:
        return Right("list", JOB), cron_job.metadata.name
    if not jobs.names:
        return None
    return find_right_to_cancel(is_embedded=await is_embedded(visit.viewer.client)), jobs.names[0]


async def _divide_by_right(visit: Visit, cron_job: CronJob, jobs: _Unfinished) -> tuple[list[JobChoice], str]:
    """Return the changes that a viewer with rights on the CronJob may make, and why cancelling is not among them.

    Cancelling also needs a right on the CronJob's jobs. The second result is "" unless the viewer lacks that right.
    """
    choices = list_cron_choices(cron_job, jobs.names)
    others = [one for one in choices if one.name != _CANCEL]
    if others == choices or (needed := await _find_jobs_right(visit, cron_job, jobs)) is None:
        return choices, ""
    right, name = needed
    refusal = await find_refusal(visit, (right,), name, cron_job.metadata.namespace)
    return (others, refusal) if refusal else (choices, "")


def _make_missing_error(namespace: str, name: str) -> PageError:
    text = f"There is no CronJob {name} in namespace {namespace}: it may have been deleted, or you may not see it."
    return PageError("There is no such CronJob", text)


# Changes.


def _make_deed(
    choice: str,
    title: str,
    button: str,
    ask: Callable[[Visit, CronJob, Sequence[str]], Awaitable[list[str]]],
    act: Callable[[Visit, CronJob], Awaitable[str]],
    *,
    danger: bool = False,
) -> Deed:
    """Return a deed about a CronJob: a page that asks for confirmation, and the change.

    choice: the name of the change in `list_cron_choices`.
    title: the title, with `{}` for the name of the CronJob.
    button: the label of the button.
    ask: returns sentences about the effect, given the names of the unfinished jobs.
    act: makes the change, and returns a sentence.
    danger: whether something ends.

    The deed raises `PageError` if the change does not apply or the viewer lacks a right.
    """

    async def ask_about(visit: Visit) -> Question:
        cron_job = await _read_cron_job(visit)
        meta = cron_job.metadata
        jobs = await _list_unfinished(visit.viewer.client, cron_job)
        if choice not in [one.name for one in list_cron_choices(cron_job, jobs.names)]:
            why = f"{meta.name} is {'held already' if cron_job.spec.suspend else 'not held'}."
            raise PageError("This cannot be done to the CronJob now", why, _CONFLICT)
        await require_right(visit, _RIGHTS, meta.name, meta.namespace)
        if choice == _CANCEL:
            await _require_jobs_right(visit, cron_job, jobs)
        return Question(meta.uid, meta.name, await ask(visit, cron_job, jobs.names))

    async def act_on(visit: Visit, cron_job: CronJob, _form: Mapping[str, str]) -> str:
        return await act(visit, cron_job)

    return make_deed(_CRON_JOBS, choice, title, button, ask_about, act_on, danger=danger)


async def _read_cron_job(visit: Visit) -> CronJob:
    """Return the current CronJob that the address names, from the server. Raises `PageError` if it does not exist."""
    namespace, name = read_names(visit, "CronJob")
    cron_job = await get_or_none(visit.viewer.client, CRON_JOB, name, namespace)
    if cron_job is None:
        raise _make_missing_error(namespace, name)
    return cron_job


_CRON_JOBS = Subject("/cronjobs/{namespace}/{name}", "jobs", _read_cron_job, lambda cron_job: cron_job.metadata.uid)


async def _require_jobs_right(visit: Visit, cron_job: CronJob, jobs: _Unfinished) -> None:
    """Raise `PageError` (403) if the viewer may not list the jobs of a CronJob, or not cancel the unfinished ones."""
    if (needed := await _find_jobs_right(visit, cron_job, jobs)) is not None:
        right, name = needed
        await require_right(visit, (right,), name, cron_job.metadata.namespace)


async def _ask_hold(_visit: Visit, _cron_job: CronJob, unfinished: Sequence[str]) -> list[str]:
    return describe_cron_hold(unfinished)


async def _ask_release(visit: Visit, cron_job: CronJob, _unfinished: Sequence[str]) -> list[str]:
    released = replace(cron_job, spec=replace(cron_job.spec, suspend=False))
    [described] = await describe_cron_jobs(visit, [released])
    return describe_cron_release(described, cron_job.spec.concurrency_policy, visit.now)


async def _ask_cancel(visit: Visit, _cron_job: CronJob, unfinished: Sequence[str]) -> list[str]:
    return describe_cron_cancel(unfinished, is_embedded=await is_embedded(visit.viewer.client))


async def _set_starting(visit: Visit, cron_job: CronJob, *, starting: bool) -> str:
    return await set_starting(visit.viewer.client, cron_job, starting=starting)


async def _cancel(visit: Visit, cron_job: CronJob) -> str:
    return f"{cron_job.metadata.name} {(await cancel_cron_job(visit.viewer.client, cron_job)).outcome}"


ROUTES = (
    Page("/cronjobs", "jobs/cronjobs.html", view_cron_jobs, "jobs"),
    Page("/cronjobs/{namespace}/{name}", "jobs/cronjob.html", view_cron_job, "jobs"),
    _make_deed("hold", "Hold CronJob {}?", "Hold the CronJob", _ask_hold, partial(_set_starting, starting=False)),
    _make_deed(
        "release", "Release CronJob {}?", "Release the CronJob", _ask_release, partial(_set_starting, starting=True)
    ),
    _make_deed(_CANCEL, "Cancel CronJob {}?", "Cancel the CronJob", _ask_cancel, _cancel, danger=True),
)
