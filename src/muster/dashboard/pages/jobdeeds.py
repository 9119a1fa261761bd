"""The deeds about a job. They call the same functions as the commands."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from muster.actions.errors import UserError
from muster.actions.jobs.altering import Alteration, alter
from muster.actions.jobs.cancelling import cancel_job, cancel_trials
from muster.actions.jobs.holding import set_active
from muster.actions.jobs.retrying import prepare_retry, retry
from muster.actions.server.session import Session
from muster.api.batch import JOB
from muster.api.kueue import WORKLOAD_PRIORITY_CLASS
from muster.dashboard.jobs.choices import TRIALS, list_choices
from muster.dashboard.jobs.outcomes import (
    describe_cancel,
    describe_cancel_trials,
    describe_forecast,
    describe_hold,
    describe_release,
)
from muster.dashboard.pages.deeds import Question, Subject, Will, make_deed, make_sentence_about
from muster.dashboard.pages.identity import read_names
from muster.dashboard.pages.jobplan import plan_document
from muster.dashboard.pages.jobscaling import ask_scale, change_size
from muster.dashboard.rights import list_job_rights, require_right
from muster.dashboard.visits import Deed, PageError, Visit, make_address
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.jobs.job import JobAndWorkload, find, find_job_uid, investigate
from muster.insight.reader.listing.access import list_or_none
from muster.insight.why import JobReadings
from muster.runtime.ids import Ids

_CONFLICT = 409

Act = Callable[[Visit, Session, str, str, Mapping[str, str]], Awaitable[str]]
"""Changes the job of a name and a UID as a form says, and returns what was done."""


def _make_deed(
    choice: str,
    title: str,
    button: str,
    ask: Callable[[Visit, JobReadings], Awaitable[Will]],
    act: Act,
    *,
    danger: bool = False,
    after: Callable[[Visit, Mapping[str, str]], str] | None = None,
) -> Deed:
    """Return a deed about a job: a page that asks for confirmation, and the change.

    choice: the name of the change in `list_choices`.
    title: the title, with `{}` for the name of the job.
    button: the label of the button.
    ask: returns sentences about the effect.
    act: makes the change, and returns a sentence.
    danger: whether something ends.
    after: returns the address of the page that follows; None for the job's page.

    The deed raises `PageError` if the change does not apply or the viewer lacks a right.
    """

    async def ask_about(visit: Visit) -> Question:
        readings = await _investigate_job(visit)
        if choice not in [one.name for one in list_choices(readings, visit.now)]:
            why = f"The state of {readings.name} is {readings.state.word}."
            raise PageError("This cannot be done to the job now", why, _CONFLICT)
        kind = readings.job.kind if readings.job is not None else None
        await require_right(visit, list_job_rights(choice, kind), readings.name, readings.namespace)
        return Question(find_job_uid(readings.job, readings.workload), readings.name, *await ask(visit, readings))

    async def act_on(visit: Visit, target: JobAndWorkload, form: Mapping[str, str]) -> str:
        namespace, name = read_names(visit)
        session = Session(visit.viewer.client, namespace)
        return await act(visit, session, name, find_job_uid(target.job, target.workload), form)

    return make_deed(_JOBS, choice, title, button, ask_about, act_on, danger=danger, after=after)


async def _find_job(visit: Visit) -> JobAndWorkload:
    namespace, name = read_names(visit)
    found = await find(visit.viewer.client, namespace, name)
    if found.job is None and found.workload is None:
        raise _make_missing_error(namespace, name, " Nothing was changed.")
    return found


_JOBS = Subject("/jobs/{namespace}/{name}", "jobs", _find_job, lambda target: find_job_uid(target.job, target.workload))


async def _investigate_job(visit: Visit) -> JobReadings:
    namespace, name = read_names(visit)
    readings = await investigate(visit.copy, namespace, name, visit.now)
    if readings is None:
        raise _make_missing_error(namespace, name)
    return readings


def _make_missing_error(namespace: str, name: str, outcome: str = "") -> PageError:
    return PageError("There is no such job", f"There is no job {name} in namespace {namespace} any more.{outcome}")


# Cancel, hold, release.


async def _ask_cancel(visit: Visit, readings: JobReadings) -> Will:
    return describe_cancel(readings, is_embedded=await is_embedded(visit.viewer.client)), []


async def _cancel(_visit: Visit, session: Session, name: str, uid: str, _form: Mapping[str, str]) -> str:
    return f"{name} {(await cancel_job(session.client, name, session.namespace, uid=uid)).outcome}"


async def _ask_hold(_visit: Visit, readings: JobReadings) -> Will:
    return describe_hold(readings), []


async def _ask_release(visit: Visit, readings: JobReadings) -> Will:
    job = readings.job
    if job is None:
        return describe_release(None, visit.now), []
    document = await visit.viewer.client.get(job.kind.seen_as(dict), readings.name, readings.namespace)
    return describe_release(await plan_document(visit, job.kind, document), visit.now), []


async def _set_active(
    _visit: Visit, session: Session, name: str, uid: str, _form: Mapping[str, str], *, active: bool
) -> str:
    return await set_active(session, name, active=active, uid=uid)


async def _ask_cancel_trials(visit: Visit, readings: JobReadings) -> Will:
    field = {"name": "indexes", "label": "Trials", "value": visit.query.get("index", ""), "type": "text"}
    return describe_cancel_trials(readings), [field | {"choices": (), "note": "one or several, as 3,5-7"}]


async def _cancel_trials(_visit: Visit, session: Session, name: str, uid: str, form: Mapping[str, str]) -> str:
    indexes = form.get("indexes", "").strip()
    return f"{name} {await cancel_trials(session.client, name, session.namespace, indexes, uid=uid)}"


# Retry.


async def _ask_retry(visit: Visit, readings: JobReadings) -> Will:
    client, namespace = visit.viewer.client, readings.namespace
    try:
        made = await prepare_retry(client, readings.name, namespace, "", Ids(), visit.viewer.account)
    except UserError as error:
        raise PageError("This cannot be done", make_sentence_about(readings.name, error), _CONFLICT) from None
    if made is None:
        raise PageError("There is nothing to retry", "All trials have succeeded.", _CONFLICT)
    document = await client.create(JOB.seen_as(dict), made.manifest, namespace, dry_run=True)
    forecast = await plan_document(visit, JOB, document)
    said = [f"A new sweep retries {len(made.retry.trials)} of {made.retry.of} trials, which keep their indexes."]
    field = {"name": "name", "label": "Name of the new sweep", "value": made.retry.name, "type": "text"}
    fields = [field | {"choices": (), "note": ""}]
    return said + ([describe_forecast(forecast, visit.now)] if forecast is not None else []), fields


async def _retry(visit: Visit, session: Session, name: str, uid: str, form: Mapping[str, str]) -> str:
    new = form.get("name", "").strip()
    if not new:
        raise UserError("the new sweep needs a name")
    made = await retry(session.client, name, session.namespace, new, Ids(), visit.viewer.account, uid=uid)
    if made is None:
        raise UserError(f"all trials of {name} have succeeded: there is none to retry")
    return f"This is the new sweep {made.name}: it retries {len(made.trials)} of {made.of} trials of {name}"


def _find_new_sweep(visit: Visit, form: Mapping[str, str]) -> str:
    """Return the address of the page of the new sweep that retries trials; the form contains its name."""
    return make_address("jobs", visit.names["namespace"], form["name"].strip())


# Priority.


async def _ask_priority(visit: Visit, readings: JobReadings) -> Will:
    classes = sorted(await list_or_none(visit.copy, WORKLOAD_PRIORITY_CLASS) or (), key=lambda one: -one.value)
    if not classes:
        raise PageError(
            "There is no priority to choose", "This cluster has no WorkloadPriorityClass, or you may not see any.", 404
        )
    quota, workload = readings.quota_state, readings.workload
    reference = workload.spec.priority_class_ref if workload is not None else None
    now = reference.name if reference is not None else ""
    said = [f"Its priority is {quota.priority if quota is not None else 0}{f' ({now})' if now else ''} now."]
    if quota is not None and quota.position is not None:
        said.append(f"It waits at position {quota.position} of {readings.waiting}; a higher priority moves it forward.")
    names = [one.metadata.name for one in classes]
    note = ", ".join(f"{one.metadata.name} is {one.value}" for one in classes)
    field = {"name": "priority", "label": "Priority", "value": now or names[0], "choices": names, "note": note}
    return said, [field]


async def _alter(visit: Visit, session: Session, name: str, uid: str, form: Mapping[str, str]) -> str:
    priority = form.get("priority", "")
    if not priority:
        raise UserError("choose a priority")
    return "; ".join(await alter(session, name, Alteration(priority=priority), visit.now, uid=uid))


ROUTES = (
    _make_deed("cancel", "Cancel {}?", "Cancel the job", _ask_cancel, _cancel, danger=True),
    _make_deed("hold", "Hold {}?", "Hold the job", _ask_hold, partial(_set_active, active=False)),
    _make_deed("release", "Release {}?", "Release the job", _ask_release, partial(_set_active, active=True)),
    _make_deed(TRIALS, "Cancel trials of {}?", "Cancel the trials", _ask_cancel_trials, _cancel_trials, danger=True),
    _make_deed("retry", "Retry trials of {}?", "Retry", _ask_retry, _retry, after=_find_new_sweep),
    _make_deed("scale", "Scale {}", "Scale the job", ask_scale, change_size),
    _make_deed("priority", "Change the priority of {}", "Change the priority", _ask_priority, _alter),
)
