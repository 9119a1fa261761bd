"""The page of nodes: a map by place, coloured by use or by job, and a list."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from muster.api.core import POD, Node, Pod
from muster.api.kueue import TOPOLOGY
from muster.api.status import ApiError
from muster.dashboard.listing import Listing, cut, read_list_query
from muster.dashboard.meters import describe_amount, draw_amount
from muster.dashboard.nodecells import BY_JOB, BY_USE, CELLS, Coloring, choose_colors, draw_gpus, draw_group
from muster.dashboard.refusals import explain_error
from muster.dashboard.visits import Page, PageError, Visit
from muster.insight.gpus import GpuRow, make_gpu_rows
from muster.insight.nodes import (
    NodeRow,
    group_rows,
    list_levels,
    list_node_resources,
    make_node_row,
    make_node_rows,
)
from muster.insight.reader.listing.access import list_or_none
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.views import NODE_LINES
from muster.insight.reader.visible import list_visible

_WELL, _UNWELL = "ready", "not ready or cordoned"
_NO_PLACE = "none"
_ROWS = "node rows"  # the key in a memo


async def view_nodes(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of nodes that the filters select. Raises `PageError`, `ApiError`."""
    unseen: list[str] = []
    nodes = await list_nodes(visit)
    pods = await list_pods(visit, unseen)
    memo = visit.copy.memo("")
    rows = read_rows(memo, nodes, pods)
    only = {name: visit.query.get(name, "") for name in ("by", "group", "state", "text", "job")}
    chosen = [row for row in rows if _is_chosen(row, only)]
    levels = list_levels(nodes, await list_or_none(visit.copy, TOPOLOGY) or ())
    group = only["group"] if only["group"] in (*levels, _NO_PLACE) else next(iter(levels), _NO_PLACE)
    resources = list_node_resources(nodes)
    by = only["by"] if only["by"] in (BY_JOB, *resources) else BY_USE
    coloring = Coloring(by, choose_colors(rows) if by == BY_JOB else {})
    listing = cut(chosen, read_list_query(visit))
    return {
        "only": only,
        "by": by,
        "choices": [(BY_USE, "the scarcest resource"), *((one, one) for one in resources), (BY_JOB, "job")],
        "group": group,
        "groups": [*levels, _NO_PLACE],
        "states": (_WELL, _UNWELL),
        "parts": [
            (one.name, len(one.rows), draw_group(one, coloring, memo))
            for one in group_rows(chosen, levels.get(group, ()))
        ],
        "jobs": [(name, color) for name, color in coloring.jobs.items()],
        "shows_more_jobs": by == BY_JOB and len({row.jobs[0] for row in rows if row.jobs}) > len(coloring.jobs),
        "listing": listing,
        "resources": resources,
        "is_use_known": pods is not None,
        "gpus": _group_gpus(nodes, pods, listing),
        "all": len(rows),
        "well": sum(row.health == "Ready" for row in rows),
        "draw_amount": draw_amount,
        "describe_amount": describe_amount,
        "draw_gpus": draw_gpus,
        "unseen": unseen,
    }


def read_rows(memo: Memo, nodes: Sequence[Node], pods: Sequence[Pod] | None) -> list[NodeRow]:
    """Return the rows of nodes, sorted by name; rows of unchanged nodes and pods come from the memo.

    pods: all pods; None if the viewer may not see all of them.
    """

    def recall(node: Node, here: Sequence[Pod] | None) -> NodeRow:
        inputs = here is None, node, *(here or ())
        return memo.recall(_ROWS, node.metadata.name, inputs, lambda: make_node_row(node, here))

    rows = make_node_rows(nodes, pods, recall)
    names = {row.name for row in rows}
    memo.retain(_ROWS, names)
    memo.retain(CELLS, names)
    return rows


async def list_nodes(visit: Visit) -> Sequence[Node]:
    """Return all nodes. Raises `PageError` if the viewer may not list them."""
    try:
        return (await visit.copy.list(NODE_LINES)).items
    except ApiError as error:
        if error.code != 403:
            raise
        text = f"{explain_error(error)} Nodes are of the whole cluster, and no namespace has any."
        raise PageError("You may not see the nodes", text, 403) from error


async def list_pods(visit: Visit, unseen: list[str]) -> list[Pod] | None:
    """Return all pods; None, with a sentence added to `unseen`, if the viewer may not list pods of all namespaces.

    Raises `ApiError` for any other refusal.
    """
    try:
        pods, where = await list_visible(visit.copy, POD, visit.viewer.namespace, lambda _: None, "pods")
    except ApiError as error:
        if error.code != 403:
            raise
        pods, where = [], "no"
    if where:
        unseen.append("What is requested of the nodes is not shown: you may not list the pods of others")
        return None
    return pods


def _is_chosen(row: NodeRow, only: Mapping[str, str]) -> bool:
    return (
        only["text"].lower() in row.name.lower()
        and (not only["state"] or (only["state"] == _WELL) == (row.health == "Ready"))
        and (not only["job"] or only["job"] in (row.jobs or ()))
    )


def _group_gpus(nodes: Sequence[Node], pods: Sequence[Pod] | None, listing: Listing) -> Mapping[str, list[GpuRow]]:
    """Return the GPUs of the nodes on a page of the list, by node."""
    shown = {row.name for row in listing.items}
    gpus: dict[str, list[GpuRow]] = defaultdict(list)
    here = [node for node in nodes if node.metadata.name in shown]
    for row in make_gpu_rows(here, pods or (), shared=pods is None):
        gpus[row.node].append(row)
    return gpus


ROUTES = (Page("/nodes", "nodes/map.html", view_nodes, "nodes"),)
