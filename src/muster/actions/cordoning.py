"""Cordon and uncordon a node, as `kubectl cordon` and `kubectl uncordon` do."""

from muster.api.core import NODE, Node
from muster.runtime.client import Client


async def set_cordon(client: Client, node: Node, *, cordoned: bool) -> str:
    """Cordon or uncordon a node unless it is in that state already; return the outcome as a sentence.

    Raises `ApiError`, with code 409 if the node was replaced by another one of the same name since it was read.
    """
    name = node.metadata.name
    if node.spec.unschedulable == cordoned:
        return f"node/{name} is {'' if cordoned else 'not '}cordoned"
    await client.patch_object(NODE, node, {"spec": {"unschedulable": True if cordoned else None}}, lock=False)
    return (
        f"node/{name} cordoned: no new pods start there"
        if cordoned
        else f"node/{name} uncordoned: new pods may start there"
    )
