"""The deeds about nodes: cordon and uncordon."""

from collections.abc import Awaitable, Callable, Mapping

from muster.actions.cordoning import set_cordon
from muster.api.core import Node
from muster.dashboard.pages.deeds import Question, Subject, make_deed
from muster.dashboard.pages.nodes.nodemap import list_pods
from muster.dashboard.pages.nodes.one import NODE_RIGHTS, find_node, read_node
from muster.dashboard.rights import require_right
from muster.dashboard.visits import Deed, Visit
from muster.insight.nodes import make_node_rows
from muster.insight.text import count_things, list_names

_NODES = Subject("/nodes/{name}", "nodes", read_node, lambda node: node.metadata.uid)


def _make_deed(
    choice: str, title: str, button: str, ask: Callable[[Visit, Node], Awaitable[list[str]]], *, cordoned: bool
) -> Deed:
    """Return a deed about a node: a page that asks for confirmation, and the change.

    choice: the last segment of the deed's address.
    title: the title, with `{}` for the name of the node.
    button: the label of the button.
    ask: returns sentences about the effect.
    cordoned: whether the deed cordons the node, rather than uncordoning it.

    The deed raises `PageError` if the viewer lacks the right.
    """

    async def ask_about(visit: Visit) -> Question:
        node = await find_node(visit)
        meta = node.metadata
        await require_right(visit, NODE_RIGHTS, meta.name)
        return Question(meta.uid, meta.name, await ask(visit, node))

    async def act_on(visit: Visit, node: Node, _form: Mapping[str, str]) -> str:
        return await set_cordon(visit.viewer.client, node, cordoned=cordoned)

    return make_deed(_NODES, choice, title, button, ask_about, act_on)


async def _ask_cordon(visit: Visit, node: Node) -> list[str]:
    [row] = make_node_rows([node], await list_pods(visit, []))
    if row.jobs is None:
        here = "Pods on the node continue."
    elif row.jobs:
        here = f"{count_things(len(row.jobs), 'job goes', 'jobs go')} on there: {list_names(row.jobs)}."
    else:
        here = "No pod is there now."
    return ["No new pods start there, until it is uncordoned.", here, "A quota that follows the nodes shrinks."]


async def _ask_uncordon(_visit: Visit, _node: Node) -> list[str]:
    return ["New pods may start there again. A quota that follows the nodes grows."]


ROUTES = (
    _make_deed("cordon", "Cordon node {}?", "Cordon the node", _ask_cordon, cordoned=True),
    _make_deed("uncordon", "Uncordon node {}?", "Uncordon the node", _ask_uncordon, cordoned=False),
)
