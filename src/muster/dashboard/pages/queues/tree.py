"""The list of queues: the tree of Cohorts with shares, weights and quotas, or the LocalQueues."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, ClusterQueue, LocalQueue
from muster.api.status import ApiError
from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.meters import draw_share
from muster.dashboard.visits import Page, PageError, Visit
from muster.insight.quota.queues import make_local_queue_row
from muster.insight.quota.shares import QuotaNode, list_quota_nodes, list_shared_resources
from muster.insight.reader.listing.access import list_or_none, list_or_say
from muster.insight.reader.visible import list_visible

_INSTALL = "muster manifests | kubectl apply --server-side -f -"


async def view_queues(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of queues: the tree of ClusterQueues, or the LocalQueues.

    Some viewers may see only LocalQueues. Raises `PageError` if the cluster serves no kind of queue.
    """
    unseen: list[str] = []
    cluster_queues = await list_or_say(visit.copy, CLUSTER_QUEUE, "", unseen.append, "ClusterQueues")
    local_queues = await list_local_queues(visit, unseen)
    if cluster_queues is None and local_queues is None and not unseen:
        text = f"It does not have Kueue's kinds. An administrator installs them: {_INSTALL}"
        raise PageError("This cluster has no queues", text)
    text = visit.query.get("text", "").lower()
    shows_local = cluster_queues is None or visit.query.get("show") == "local"
    base: dict[str, Any] = {
        "text": visit.query.get("text", ""),
        "shows_local": shows_local,
        "has_tree": cluster_queues is not None,
        "unseen": unseen,
        "draw_share": draw_share,
    }
    if shows_local:
        rows = [row for row in _list_local_rows(local_queues or ()) if text in f"{row['namespace']}/{row['name']}"]
        return base | {"listing": cut(rows, read_list_query(visit)), "all": len(local_queues or ())}
    nodes = list_quota_nodes(cluster_queues or (), await list_or_none(visit.copy, COHORT) or ())
    chosen = _choose(nodes, text)
    return base | {
        "listing": cut(chosen, read_list_query(visit)),
        "all": len(nodes),
        "resources": list_shared_resources(nodes),
        "has_shares": any(node.shared for node in nodes),
        "broken": _list_unreadable(cluster_queues or (), nodes),
        "fronts": _group_by_cluster_queue(local_queues or ()),
    }


async def list_local_queues(visit: Visit, unseen: list[str]) -> list[LocalQueue] | None:
    """Return the LocalQueues that the viewer may see; None if the viewer may list none, or the kind is not served.

    Sentences about what the viewer may not see are added to `unseen`.
    """
    try:
        queues, _ = await list_visible(visit.copy, LOCAL_QUEUE, visit.viewer.namespace, unseen.append, "LocalQueues")
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        if error.code == 403:
            unseen.append(f"LocalQueues are not shown: {error}")
        return None
    return queues


def _choose(nodes: Sequence[QuotaNode], text: str) -> list[QuotaNode]:
    """Return the nodes of the tree whose name contains a text, and the Cohorts above them, in order; all for ""."""
    if not text:
        return [*nodes]
    chosen: list[QuotaNode] = []
    depth = -1
    for node in reversed(nodes):
        if text in node.name.lower() or node.depth < depth:
            chosen.append(node)
            depth = node.depth
        elif node.depth == 0:
            depth = -1
    return chosen[::-1]


def _list_unreadable(queues: Iterable[ClusterQueue], nodes: Iterable[QuotaNode]) -> list[str]:
    """Return the names of the ClusterQueues that the tree lacks because they contain an invalid quantity."""
    there = {node.name for node in nodes if node.row is not None}
    return sorted(one.metadata.name for one in queues if one.metadata.name not in there)


def _list_local_rows(queues: Iterable[LocalQueue]) -> list[dict[str, Any]]:
    rows = map(make_local_queue_row, queues)
    return sorted(rows, key=lambda row: (row["namespace"], row["name"]))


def _group_by_cluster_queue(queues: Iterable[LocalQueue]) -> Mapping[str, list[tuple[str, str]]]:
    """Return the namespace and name of the LocalQueues that point to each ClusterQueue, by its name."""
    fronts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in queues:
        fronts[one.spec.cluster_queue].append((one.metadata.namespace, one.metadata.name))
    return {name: sorted(front) for name, front in fronts.items()}


ROUTES = (Page("/queues", "queues/tree.html", view_queues, "queues"),)
