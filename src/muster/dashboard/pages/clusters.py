"""The page of MultiKueue's worker clusters: their connection, and where jobs were dispatched."""

from collections.abc import Mapping
from typing import Any

from muster.api.kueue import CLUSTER_QUEUE
from muster.dashboard.visits import Page, Visit
from muster.insight.clusters import advise_on_cluster
from muster.insight.reader.clusters import clusters_of, find_destinations
from muster.insight.reader.listing.access import list_or_none

_COLORS = {"Connected": "good", "Lost": "bad", "Unknown": "waiting"}


async def view_clusters(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of worker clusters: states, dispatching queues, and advice."""
    states = await clusters_of(visit.copy)
    queues = await list_or_none(visit.copy, CLUSTER_QUEUE) if states else None
    sends = await find_destinations(visit.copy, queues or ())
    senders = {
        state.name: sorted(queue for queue, clusters in sends.items() if state.name in clusters)
        for state in states or ()
    }
    advice = {state.name: advise_on_cluster(state) for state in states or ()}
    return {"states": states, "senders": senders, "colors": _COLORS, "advice": advice}


ROUTES = (Page("/clusters", "clusters/list.html", view_clusters, "clusters"),)
