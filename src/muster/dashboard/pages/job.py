"""The page of one job: its state on the six levels, life, workers, Events and manifest.

The name may belong to a job, a pod group, or a job of a foreign kind, which its Workload describes. A deleted job is
shown from the history.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from muster.actions.jobs.explaining import explain
from muster.actions.jobs.lookup import explain_missing_job
from muster.api.core import POD, Pod
from muster.api.kueue import WORKLOAD, WORKLOAD_PRIORITY_CLASS
from muster.api.status import ApiError
from muster.api.values.yaml_encode import dump_yaml
from muster.charts.markup import Markup
from muster.charts.scales import list_time_ticks
from muster.charts.timeline import Span, draw_timeline
from muster.dashboard.jobs.choices import TRIALS, JobChoice, list_choices, list_commands, list_other_commands
from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.pages.cronjobs import find_cron_job, has_cron_job
from muster.dashboard.pages.identity import read_names
from muster.dashboard.rights import find_refusal, list_job_rights
from muster.dashboard.states import color_of
from muster.dashboard.usage import ask_usage
from muster.dashboard.visits import Page, PageError, Visit
from muster.insight.history.build import read_times
from muster.insight.history.life import Life
from muster.insight.history.phases import Phase, list_phases
from muster.insight.history.runs import Run, RunQuery
from muster.insight.jobs.disclosure import hide_secrets
from muster.insight.jobs.podgroups import make_details
from muster.insight.jobs.state import find_wait_begin
from muster.insight.jobs.trials import Trials
from muster.insight.jobs.workers import make_worker, order_workers
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.history.decisions import NO_DECISIONS, read_life
from muster.insight.reader.history.recorded import read_recorded_runs
from muster.insight.reader.jobs.events import read_events
from muster.insight.reader.jobs.podgroups import events_of, pod_groups
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.reader.listing.views import JOB_LINES, JOB_SET_LINES
from muster.insight.text import format_duration, make_sentence
from muster.insight.usage import CurrentUsage, Name, format_gpus, knows_gpus, make_worker_rows, usage_by_pod
from muster.insight.why import JobReadings
from muster.insight.why.sentences import describe_estimate, describe_failures, describe_interruptions, describe_notices

_COLOR_BY_PHASE = {
    "quota": "waiting", "nodes": "placing", "elsewhere": "elsewhere", "starting": "starting", "running": "running",
    "stopping": "stopping",
}  # fmt: skip
# The states in which a trial cannot be cancelled.
_TRIAL_OVER = ("Completed", "Failed", "Cancelled", "Cancelling")
_SHOWN_MOMENTS = 200


async def view_job(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of the job that the address names.

    Raises `PageError` if nothing is known about the job.
    """
    namespace, name = read_names(visit)
    answer = await explain(visit.copy, namespace, name, visit.now, visit.copy.memo(namespace), kind=POD)
    life = await _read_life(visit, namespace, name)
    if answer is None:
        return await _view_other(visit, namespace, name, life)
    readings, levels = answer
    await _follow_job(visit, namespace)
    choices, refusals = await _divide_by_right(visit, readings, await _find_choices(visit, readings))
    return {
        "name": name,
        "namespace": namespace,
        "readings": readings,
        "past": None,
        "has_cron_job": await has_cron_job(visit, namespace, name),
        "groups": (),
        "state": readings.state,
        "color_of": color_of,
        "facts": _list_facts(readings, visit.now),
        "levels": levels if not readings.state.finished else (),
        "sentences": _list_sentences(readings),
        "choices": choices,
        "refusals": refusals,
        "commands": list_commands(readings),
        "has_output": readings.job is not None,
        "manifest": await _render_manifest(visit, readings),
        "events": await read_events(visit.viewer.client, namespace, readings.job, readings.workload),
        **_view_life(life, visit.now),
        **await _view_workers(visit, readings),
    }


async def _follow_job(visit: Visit, namespace: str) -> None:
    """Watch the jobs of the namespace, so that the page is rendered again when the job changes."""
    await list_or_none(visit.copy, JOB_LINES, namespace)
    await list_or_none(visit.copy, JOB_SET_LINES, namespace)


def _list_facts(readings: JobReadings, now: datetime) -> dict[str, Any]:
    """Return the facts at the top of a job's page: its kind, queue, priority, times and so on."""
    job, quota = readings.job, readings.quota_state
    about: dict[str, Any] = {
        "kind": job.kind.kind if job is not None else _find_owner_kind(readings),
        "queue": quota.queue if quota is not None else "",
        "cluster_queue": readings.cluster_queue,
        "position": quota.position if quota is not None else None,
        "waiting": readings.waiting,
        "priority": quota.priority if quota is not None else None,
        "priority_class": _find_priority_class(readings),
        "cluster": quota.cluster if quota is not None else "",
    }
    times = read_times(job, readings.pods, now) if job is not None else _read_workload_times(readings)
    waits_since = find_wait_begin(readings.state, quota, times["submitted"], times["started"])
    return about | times | {"waits_since": waits_since}


def _read_workload_times(readings: JobReadings) -> dict[str, Any]:
    """Return the times of a job that only its Workload describes."""
    quota, workload = readings.quota_state, readings.workload
    submitted = workload.metadata.creation_timestamp if workload is not None else None
    ended = quota.since if quota is not None and quota.finished else None
    return {"owner": "", "submitted": submitted, "started": None, "ended": ended, "runSeconds": None}


async def _find_choices(visit: Visit, readings: JobReadings) -> list[JobChoice]:
    """Return the changes that are possible for a job in this cluster.

    Changing the priority needs priority classes, and cancelling single trials needs Muster's Job controller.
    """
    choices = {one.name: one for one in list_choices(readings, visit.now)}
    if "priority" in choices and not await list_or_none(visit.copy, WORKLOAD_PRIORITY_CLASS):
        del choices["priority"]
    if TRIALS in choices and not await is_embedded(visit.viewer.client):
        del choices[TRIALS]
    return list(choices.values())


async def _divide_by_right(
    visit: Visit, readings: JobReadings, choices: Sequence[JobChoice]
) -> tuple[list[JobChoice], list[str]]:
    """Return the changes that the viewer may make, and the distinct reasons why the other changes are not allowed."""
    kind = readings.job.kind if readings.job is not None else None
    rights = [list_job_rights(one.name, kind) for one in choices]
    refusals = [await find_refusal(visit, one, readings.name, readings.namespace) for one in rights]
    allowed = [one for one, refusal in zip(choices, refusals, strict=True) if not refusal]
    return allowed, list(dict.fromkeys(filter(None, refusals)))


def _find_priority_class(readings: JobReadings) -> str:
    reference = readings.workload.spec.priority_class_ref if readings.workload is not None else None
    return reference.name if reference is not None else ""


def _find_owner_kind(readings: JobReadings) -> str:
    owners = readings.workload.metadata.owner_references if readings.workload is not None else ()
    return owners[0].kind if len(owners) == 1 else "Workload"


def _list_sentences(readings: JobReadings) -> list[tuple[str, str]]:
    """Return the remarks of `muster why` outside of the levels, as pairs of a title and a sentence."""
    said = [("interrupted", text) for text in describe_interruptions(readings)]
    if readings.state.word != "Cancelling" and (not readings.state.finished or readings.state.word == "Failed"):
        said += [("failed", text) for text in describe_failures(readings)]
    if readings.estimate is not None:
        said.append(("starts", describe_estimate(readings.estimate, readings.now, with_clock=False)))
    if failure := describe_notices(readings):
        said.append(("notices", failure))
    return said


# The life of the job.


async def _read_life(visit: Visit, namespace: str, name: str) -> Life | None:
    """Return the life of a job; None if the viewer may not see it, or nothing is known about the job.

    Raises `ApiError`.
    """
    try:
        return await read_life(visit.copy, namespace, name)
    except ApiError as error:
        if error.code != 403:
            raise
        return None


def _view_life(life: Life | None, now: datetime) -> dict[str, Any]:
    """Return the template values about a job's life: its last events, and a drawing of its phases.

    The values are empty if `life` is None.
    """
    if life is None:
        return {"moments": (), "birth": None, "earlier": 0, "timeline": "", "phases": (), "life_note": ""}
    phases = list_phases(life)
    return {
        "moments": life.moments[-_SHOWN_MOMENTS:],
        "birth": life.moments[0].at if life.moments else None,
        "earlier": max(len(life.moments) - _SHOWN_MOMENTS, 0),
        "timeline": draw_phases(phases, now),
        "phases": list(dict.fromkeys((one.title, _COLOR_BY_PHASE[one.name]) for one in phases)),
        "life_note": "" if life.kept else NO_DECISIONS,
    }


def draw_phases(phases: Sequence[Phase], now: datetime) -> Markup:
    """Draw the phases of a job's life; empty without phases.

    now: the end of a phase that has not ended.
    """
    if not phases:
        return Markup()
    start = phases[0].start
    seconds = max(((phases[-1].end or now) - start).total_seconds(), 1.0)
    spans = []
    for phase in phases:
        begin, end = ((at - start).total_seconds() for at in (phase.start, phase.end or now))
        title = f"{phase.title} for {format_duration(int(end - begin))}"
        spans.append(Span(begin / seconds, end / seconds, _COLOR_BY_PHASE[phase.name], title))
    told = "; ".join(span.title for span in spans[:20])
    return draw_timeline(spans, list_time_ticks(seconds), f"The life of the job: {told}")


# The workers.


async def _view_workers(visit: Visit, readings: JobReadings) -> dict[str, Any]:
    job = readings.job
    if job is not None and job.array is not None:
        trials, wanted = Trials(job, readings.pods), visit.query.get("trials", "")
        ranks = list(trials.ranks_by_state.get(wanted, ())) if wanted else range(len(trials))
        listing = cut(ranks, read_list_query(visit))
        listing = replace(listing, items=trials.make_rows(listing.items, visit.now))
        states = sorted(trials.ranks_by_state)
        return {"trials": listing, "trial_states": states, "only": wanted, "over": _TRIAL_OVER, "workers": None}
    listing = cut(order_workers(job, readings.pods), read_list_query(visit))
    workers = [make_worker(job, place) for place in listing.items]
    is_any_running = any(one.state == "Running" for one in workers)
    usage = usage_by_pod(await ask_usage(visit, readings.namespace)) if is_any_running else {}
    rows = [
        {"worker": one, "usage": _render_usage(place.pod, usage)}
        for one, place in zip(workers, listing.items, strict=True)
    ]
    has_gpus = knows_gpus(usage.get((one.namespace, one.pod)) for one in workers)
    shown = {"rows": rows, "listing": listing, "has_usage": bool(usage), "has_gpus": has_gpus}
    return {"trials": None, "workers": shown}


def _render_usage(pod: Pod, usage: Mapping[Name, CurrentUsage]) -> dict[str, str]:
    """Return the use of a pod next to its requests, in the format of `muster top JOB`."""
    [(_, _, _, cpus, memory, _)] = make_worker_rows([pod], usage)
    gpus, gpu_memory = format_gpus(usage.get((pod.metadata.namespace, pod.metadata.name)))
    return {"cpus": cpus, "memory": memory, "gpus": gpus, "gpu_memory": gpu_memory}


# The manifest.


async def _render_manifest(visit: Visit, readings: JobReadings) -> str:
    """Return the YAML of a job, or of the Workload of a job of a foreign kind, without secrets.

    Returns "" if the object was deleted, or if the viewer may not see it.
    """
    job, workload = readings.job, readings.workload
    if job is not None:
        kind, name = job.kind, job.metadata.name
    elif workload is not None:
        kind, name = WORKLOAD, workload.metadata.name
    else:
        return ""
    document = await get_or_none(visit.viewer.client, kind.seen_as(dict), name, readings.namespace)
    return "" if document is None else dump_yaml(hide_secrets(document))


# Names that no job has.


async def _view_other(visit: Visit, namespace: str, name: str, life: Life | None) -> Mapping[str, Any]:
    """Return the template values for a name that no job has: of pod groups, a deleted job, or a CronJob.

    Raises `PageError` if nothing is known about the name.
    """
    groups = [view for view in await pod_groups(visit.copy, namespace, lambda _: None) if view.name == name]
    is_cron_job = await find_cron_job(visit, namespace, name) is not None
    run = await _find_run(visit, namespace, name) if not groups else None
    if not groups and not is_cron_job and run is None and (life is None or not life.moments):
        raise PageError("There is no such job", make_sentence(await explain_missing_job(visit.copy, name, namespace)))
    return {
        "name": name,
        "namespace": namespace,
        "readings": None,
        "past": run,
        "has_cron_job": is_cron_job,
        "groups": [make_details(view, await events_of(visit.viewer.client, view), visit.now) for view in groups],
        "state": None,
        "color_of": color_of,
        "facts": {},
        "levels": (),
        "sentences": (),
        "choices": (),
        "refusals": (),
        "commands": list_other_commands(name, namespace),
        "has_output": False,
        "manifest": "",
        "events": (),
        "trials": None,
        "workers": None,
        **_view_life(life, visit.now),
    }


async def _find_run(visit: Visit, namespace: str, name: str) -> Run | None:
    runs = await read_recorded_runs(visit.viewer.client, RunQuery(namespace=namespace, names=(name,)))
    return next((run for run in runs if run.name == name), None)


ROUTES = (Page("/jobs/{namespace}/{name}", "jobs/job.html", view_job, "jobs"),)
