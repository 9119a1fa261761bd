"""The history page: totals of past runs by user, queue and day, the newest runs, and all runs as CSV."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from muster.dashboard.pages.jobs import read_or_explain
from muster.dashboard.states import color_of
from muster.dashboard.visits import Download, Page, Visit, make_address
from muster.insight.history.csvfile import format_csv
from muster.insight.history.runs import OUTCOMES, Run, RunQuery, make_row
from muster.insight.history.totals import GROUPINGS, By, add_up
from muster.insight.reader.visible import visible_history
from muster.insight.text import format_owners
from muster.runtime.transport import Response

_DAYS = ("1", "7", "30", "90")
# The maximum number of runs in the totals and in a CSV file.
_MOST_COUNTED, _MOST_IN_FILE = 20_000, 200_000
_MOST_SHOWN = 100
_FILTERS = ("namespace", "user", "queue", "state")


async def view_history(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the history page: totals, and the newest runs that the filters select.

    Raises `PageError`, `ApiError`.
    """
    unseen: list[str] = []
    only = {name: visit.query.get(name, "") for name in _FILTERS}
    reading = _read_runs(visit, _MOST_COUNTED, unseen.append)
    runs, is_cut = await read_or_explain(visit, reading, only["namespace"])
    days, by = _read_days(visit), _read_grouping(visit)
    totals = add_up(runs, by)
    return {
        "only": only,
        "days": days,
        "all_days": _DAYS,
        "by": by,
        "groupings": GROUPINGS,
        "states": OUTCOMES,
        "totals": totals,
        "owners": format_owners(total.name for total in totals) if by == "user" else {},
        "runs": runs[:_MOST_SHOWN],
        "count": len(runs),
        "is_cut": is_cut,
        "has_gpus": any("gpu" in name for run in runs for one in run.pod_requests for name in one.requests),
        "unseen": unseen,
        "color_of": color_of,
        "links": {total.name: find_link(total.name, by, {**only, "days": days}) for total in totals},
        "csv": make_address("history.csv", days=days, **only),
    }


def find_link(name: str, by: By, query: Mapping[str, str]) -> str:
    """Return the address of the history page that lists the runs of a total.

    query: the parameters of the page with the total.

    Returns "" for the total of a day, or for one without a name.
    """
    if not name or by == "day":
        return ""
    namespace, _, queue = name.rpartition("/")
    chosen: dict[str, str] = {"queue": queue, "namespace": namespace} if by == "queue" else {by: name}
    return make_address("history", **{**query, **chosen, "by": by})


async def answer_csv(visit: Visit) -> Response:
    """Return a CSV file of the runs that the filters select, in the format of `muster history -o csv`.

    Raises `ApiError`.
    """
    runs, _ = await _read_runs(visit, _MOST_IN_FILE, lambda _: None)
    headers = {"content-disposition": 'attachment; filename="history.csv"'}
    return Response(200, await asyncio.to_thread(_format_runs, runs), "text/csv; charset=utf-8", headers)


async def _read_runs(visit: Visit, most: int, say: Callable[[str], None]) -> tuple[list[Run], bool]:
    return await visible_history(visit.copy, read_query(visit), most, visit.viewer.namespace, say)


def _format_runs(runs: Sequence[Run]) -> bytes:
    return format_csv([make_row(run) for run in reversed(runs)]).encode()


def read_query(visit: Visit) -> RunQuery:
    """Return the query for the runs that the address selects by namespace, user, queue, state and age."""
    state = visit.query.get("state", "")
    return RunQuery(
        namespace=visit.query.get("namespace", ""),
        owner=visit.query.get("user", ""),
        queue=visit.query.get("queue", ""),
        states=(state,) if state in OUTCOMES else (),
        since=visit.now - timedelta(days=int(_read_days(visit))),
    )


def _read_days(visit: Visit) -> str:
    said = visit.query.get("days", "")
    return said if said in _DAYS else "7"


def _read_grouping(visit: Visit) -> By:
    said = visit.query.get("by", "")
    return said if said in GROUPINGS else "user"


ROUTES = (
    Page("/history", "history/list.html", view_history, "history", live=False),
    Download("/history.csv", answer_csv),
)
