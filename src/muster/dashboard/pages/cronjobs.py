"""The list of CronJobs: when each one starts jobs, what it did last, and which of its jobs run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.api.batch import CRON_JOB, CronJob
from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.pages.jobs import parse_labels, read_or_explain
from muster.dashboard.visits import Page, Visit
from muster.insight.jobs.cronjobs import describe_cron_job
from muster.insight.reader.queues import is_embedded
from muster.insight.reader.visible import list_visible

_FILTERS = ("namespace", "text", "labels")


async def view_cron_jobs(visit: Visit) -> Mapping[str, Any]:
    """Return the CronJobs that the filters leave, by name. Raises `PageError`, `ApiError`."""
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
    """Return CronJobs as `muster why` shows them."""
    needs_zone = any(one.spec.time_zone is None for one in cron_jobs)
    is_here = needs_zone and await is_embedded(visit.viewer.client)
    return [describe_cron_job(one, visit.now, on_this_machine=is_here) for one in cron_jobs]


ROUTES = (Page("/cronjobs", "jobs/cronjobs.html", view_cron_jobs, "jobs"),)
