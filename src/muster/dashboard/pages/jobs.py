"""The list of jobs of all kinds. Its filters and order are in the address."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from muster.api.ours.users import is_user, short_user
from muster.api.status import ApiError
from muster.api.values.selectors import LabelMatcher, SelectorError, parse_label_selector
from muster.dashboard.jobrows import read_job_rows
from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.refusals import explain_error
from muster.dashboard.root import ROOT
from muster.dashboard.states import GROUPS, STATES, color_of, is_in_state
from muster.dashboard.usage import ask_usage
from muster.dashboard.visits import Page, PageError, Visit
from muster.insight.reader.listing.access import list_or_none
from muster.insight.reader.listing.missing import update_missing
from muster.insight.reader.listing.views import JOB_LINES, JOB_SET_LINES, WORKLOAD_LINES
from muster.insight.text import make_sentence
from muster.insight.usage import format_cpus, format_memory, usage_by_job

_FILTERS = ("namespace", "state", "queue", "user", "text", "labels", "order", "columns")
_ALL_COLUMNS = "all"
_BAD_REQUEST, _FORBIDDEN = 400, 403
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = Mapping[str, Any]
T = TypeVar("T")

_ORDERS: Mapping[str, tuple[Callable[[Row], Any], bool]] = {
    "newest": (lambda row: row["submitted"] or _EPOCH, True),
    "oldest": (lambda row: row["submitted"] or _EPOCH, False),
    "name": (lambda row: (row["name"], row["namespace"]), False),
    "state": (lambda row: STATES.index(row["state"]) if row["state"] in STATES else len(STATES), False),
    "position": (lambda row: (row["position"] is None, row["position"] or 0, row["clusterQueue"]), False),
    "priority": (lambda row: row["priority"] or 0, True),
    "longest run": (lambda row: row["runSeconds"] or -1, True),
    "most pods": (lambda row: row["wanted"], True),
}
"""How the list can be ordered: the key of a row, and whether the largest comes first."""


async def view_jobs(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the list of jobs: the rows that the filters select, in the chosen order.

    Raises `PageError`, `ApiError`.
    """
    only = {name: visit.query.get(name, "") for name in _FILTERS}
    rows, namespace, unseen = await read_or_explain(visit, read_job_rows(visit, only["namespace"]), only["namespace"])
    labelled = await _find_labelled(visit, namespace, only["labels"]) if only["labels"].strip() else None
    chosen = [row for row in rows if _is_chosen(row, only) and (labelled is None or row["uid"] in labelled)]
    is_wide = only["columns"] == _ALL_COLUMNS
    listing = cut(_sort(chosen, only["order"]), read_list_query(visit))
    shown = await update_missing(visit.copy, listing.items, namespace, visit.copy.memo(""))
    return {
        "only": only,
        "orders": list(_ORDERS)[1:],
        "states": (*GROUPS, *STATES),
        "queues": _list_values(rows, "queue"),
        "namespaces": _list_values(rows, "namespace"),
        "users": list_users(rows),
        "user": only["user"] if only["user"] in list_users(rows) else short_user(only["user"]),
        "listing": replace(listing, items=shown),
        "all": len(rows),
        "is_wide": is_wide,
        "usage": usage_by_job(await ask_usage(visit, namespace)) if is_wide else {},
        "format_cpus": format_cpus,
        "format_memory": format_memory,
        "color_of": color_of,
        "unseen": unseen,
    }


async def read_or_explain(visit: Visit, read: Awaitable[T], namespace: str) -> T:
    """Await `read`, and return its result.

    If it is forbidden and the viewer selected no namespace, raises `PageError` with a hint to select a namespace.
    Raises `ApiError` otherwise.
    """
    try:
        return await read
    except ApiError as error:
        if namespace or error.code != _FORBIDDEN:
            raise
        hint = f"If you work in another namespace, name it in the address: {ROOT}{visit.path}?namespace=NAME"
        raise PageError("You may not see these jobs", f"{explain_error(error)} {hint}", _FORBIDDEN) from None


def _is_chosen(row: Row, only: Mapping[str, str]) -> bool:
    text = only["text"].lower()
    return (
        is_in_state(row["state"], only["state"])
        and (not only["queue"] or row["queue"] == only["queue"])
        and (not only["user"] or is_user(only["user"], row["owner"]))
        and (not text or text in row["name"].lower() or text in row["reason"].lower())
    )


def _sort(rows: Iterable[Row], order: str) -> list[Row]:
    """Return the rows of jobs in the order that the address names; newest first for an unknown order.

    rows: the rows in the order in which the jobs were submitted.
    """
    key, largest_first = _ORDERS.get(order, _ORDERS["newest"])
    # Of rows that are equal, the newest comes first.
    newest_first = list(rows)[::-1]
    return sorted(newest_first, key=key, reverse=largest_first)


async def _find_labelled(visit: Visit, namespace: str, selector: str) -> Collection[str]:
    """Return the UIDs of the jobs and Workloads whose labels match a selector.

    Raises `PageError` if the selector is invalid.
    """
    matcher = parse_labels(selector)
    lists = (
        await list_or_none(visit.copy, JOB_LINES, namespace),
        await list_or_none(visit.copy, JOB_SET_LINES, namespace),
        await list_or_none(visit.copy, WORKLOAD_LINES, namespace),
    )
    metas = (one.metadata for objects in lists for one in objects or ())
    return {meta.uid for meta in metas if matcher.matches(meta.labels)}


def parse_labels(selector: str) -> LabelMatcher:
    """Return a matcher for a label selector. Raises `PageError` (400) if it is invalid."""
    try:
        return parse_label_selector(selector)
    except SelectorError as error:
        text = make_sentence(f"{error}; as team=vision,size!=large")
        raise PageError("This is no selector of labels", text, _BAD_REQUEST) from None


def list_users(rows: Iterable[Row]) -> list[str]:
    """Return the sorted names of the users who have jobs.

    A name is short unless another user has the same short name.
    """
    names = _list_values(rows, "owner")
    counts = Counter(map(short_user, names))
    return sorted(name if counts[short_user(name)] > 1 else short_user(name) for name in names)


def _list_values(rows: Iterable[Row], name: str) -> list[str]:
    return sorted({row[name] for row in rows if row[name]})


ROUTES = (Page("/jobs", "jobs/list.html", view_jobs, "jobs"),)
