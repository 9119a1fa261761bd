"""Changes of nodes: cordon and uncordon."""

from collections.abc import Mapping
from typing import Any

from muster.actions.cordoning import set_cordon
from muster.api.core import Node
from muster.dashboard.pages.nodes.nodemap import list_pods
from muster.dashboard.pages.nodes.one import NODE_RIGHTS, find_node
from muster.dashboard.rights import require_right
from muster.dashboard.visits import Deed, Visit, make_address
from muster.insight.nodes import make_node_rows
from muster.insight.text import count_things, list_names


async def view_cordon(visit: Visit) -> Mapping[str, Any]:
    """Return the values of the page that asks before a node is cordoned. Raises `PageError`, `ApiError`."""
    node = await _find_own_node(visit)
    name = node.metadata.name
    [row] = make_node_rows([node], await list_pods(visit, []))
    if row.jobs is None:
        here = "Pods that are there go on."
    elif row.jobs:
        here = f"{count_things(len(row.jobs), 'job goes', 'jobs go')} on there: {list_names(row.jobs)}."
    else:
        here = "No pod is there now."
    return {
        "title": f"Cordon node {name}?",
        "will": ["No new pods start there, until it is uncordoned.", here, "A quota that follows the nodes shrinks."],
        "fields": [],
        "button": "Cordon the node",
        "danger": False,
        "back": make_address("nodes", name),
    }


async def _find_own_node(visit: Visit) -> Node:
    """Return the node that the address names.

    Raises `PageError` if there is none, or the viewer may not change it.
    """
    node = await find_node(visit)
    await require_right(visit, NODE_RIGHTS, node.metadata.name)
    return node


async def cordon(visit: Visit, _: Mapping[str, str]) -> str:
    """Cordon the node that the address names; return the outcome as a sentence. Raises `ApiError`."""
    return await set_cordon(visit.viewer.client, visit.names["name"], cordoned=True)


async def view_uncordon(visit: Visit) -> Mapping[str, Any]:
    """Return the values of the page that asks before a node is uncordoned. Raises `PageError`, `ApiError`."""
    name = (await _find_own_node(visit)).metadata.name
    return {
        "title": f"Uncordon node {name}?",
        "will": ["New pods may start there again. A quota that follows the nodes grows."],
        "fields": [],
        "button": "Uncordon the node",
        "danger": False,
        "back": make_address("nodes", name),
    }


async def uncordon(visit: Visit, _: Mapping[str, str]) -> str:
    """Uncordon the node that the address names; return the outcome as a sentence. Raises `ApiError`."""
    return await set_cordon(visit.viewer.client, visit.names["name"], cordoned=False)


def find_page(visit: Visit, _: Mapping[str, str]) -> str:
    """Return the address of the page of the node that a visit names."""
    return make_address("nodes", visit.names["name"])


ROUTES = (
    Deed("/nodes/{name}/cordon", view_cordon, cordon, find_page, "nodes"),
    Deed("/nodes/{name}/uncordon", view_uncordon, uncordon, find_page, "nodes"),
)
