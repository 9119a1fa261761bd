"""Keep new pods away from a node, and let them come again, as `kubectl cordon` and `uncordon` do."""

from muster.api.core import NODE, Node
from muster.runtime.client import Client


async def set_cordon(client: Client, node: Node, *, cordoned: bool) -> str:
    """Cordon or uncordon a node as it was read, unless it is already so; return the outcome as a sentence.

    Raises `ApiError` (409 for another node of this name).
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
