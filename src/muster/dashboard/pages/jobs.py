"""The list of jobs: all kinds, with filters in the address."""

from collections.abc import Iterable, Mapping
from typing import Any

from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.states import STATES, color_of
from muster.dashboard.visits import Page, Visit
from muster.insight.reader.jobs import job_rows

_FILTERS = ("namespace", "state", "queue", "user", "text")


async def view_jobs(visit: Visit) -> Mapping[str, Any]:
    """Return the jobs that the filters leave, the newest first."""
    unseen: list[str] = []
    only = {name: visit.query.get(name, "") for name in _FILTERS}
    rows = await job_rows(visit.copy, only["namespace"], visit.now, unseen.append)
    chosen = [row for row in reversed(rows) if _is_chosen(row, only)]
    listing = cut(chosen, read_list_query(visit))
    return {
        "only": only,
        "states": STATES,
        "queues": _list_values(rows, "queue"),
        "namespaces": _list_values(rows, "namespace"),
        "users": _list_values(rows, "owner"),
        "listing": listing,
        "all": len(rows),
        "color_of": color_of,
        "unseen": unseen,
    }


def _is_chosen(row: Mapping[str, Any], only: Mapping[str, str]) -> bool:
    text = only["text"].lower()
    return (
        (not only["state"] or row["state"] == only["state"])
        and (not only["queue"] or row["queue"] == only["queue"])
        and (not only["user"] or row["owner"] == only["user"])
        and (not text or text in row["name"].lower() or text in row["reason"].lower())
    )


def _list_values(rows: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    return sorted({row[name] for row in rows if row[name]})


ROUTES = (Page("/jobs", "jobs/list.html", view_jobs, "jobs"),)
