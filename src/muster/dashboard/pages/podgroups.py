"""The list of pod groups: PodGroups of all kinds, and the pod groups of Kueue that are not queued yet."""

from collections.abc import Callable, Mapping
from typing import Any

from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.pages.jobs import read_or_explain
from muster.dashboard.visits import Page, Visit
from muster.insight.jobs.podgroups import PodGroupView, find_creation, make_row
from muster.insight.reader.jobs.podgroups import pod_groups
from muster.insight.reader.visible import visible_pod_groups

_FILTERS = ("namespace", "state", "text")


async def view_pod_groups(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the list of pod groups that the filters select. Raises `PageError`, `ApiError`."""
    only = {name: visit.query.get(name, "") for name in _FILTERS}
    unseen: list[str] = []
    reading = _list_groups(visit, only["namespace"], unseen.append)
    groups = await read_or_explain(visit, reading, only["namespace"])
    chosen = [one for one in groups if only["text"].lower() in one.name.lower() and only["state"] in ("", one.state)]
    listing = cut(chosen, read_list_query(visit))
    return {
        "only": only,
        "namespaces": sorted({one.namespace for one in groups}),
        "states": sorted({one.state for one in groups}),
        "listing": listing,
        "rows": [make_row(one, visit.now) | {"created": find_creation(one)} for one in listing.items],
        "all": len(groups),
        "unseen": unseen,
    }


async def _list_groups(visit: Visit, namespace: str, say: Callable[[str], None]) -> list[PodGroupView]:
    if namespace:
        return await pod_groups(visit.copy, namespace, say)
    groups, _ = await visible_pod_groups(visit.copy, visit.viewer.namespace, say)
    return groups


ROUTES = (Page("/podgroups", "jobs/podgroups.html", view_pod_groups, "jobs"),)
