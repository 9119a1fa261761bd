"""Keeps new pods away from a node, and lets them come again, as `kubectl cordon` and `uncordon` do."""

from muster.api.core import NODE
from muster.runtime.client import Client


async def set_cordon(client: Client, name: str, *, cordoned: bool) -> str:
    """Cordon or uncordon a node, unless it is already so; return the outcome as a sentence. Raises `ApiError`."""
    before = await client.get(NODE, name)
    if before.spec.unschedulable == cordoned:
        return f"node/{name} is {'' if cordoned else 'not '}cordoned"
    await client.patch(NODE, name, {"spec": {"unschedulable": True if cordoned else None}})
    return (
        f"node/{name} cordoned: no new pods start there"
        if cordoned
        else f"node/{name} uncordoned: new pods may start there"
    )
