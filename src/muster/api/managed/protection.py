"""The finalizer of objects that must not be deleted while they are used. Their controller removes it."""

from typing import Any, Final

from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR
from muster.api.kueue.names import RESOURCE_IN_USE_FINALIZER

HELD_KINDS: Final = (CLUSTER_QUEUE, RESOURCE_FLAVOR)


def hold_while_used(document: dict[str, Any]) -> None:
    """Add the finalizer to a new object of such a kind."""
    finalizers = document["metadata"].setdefault("finalizers", [])
    if RESOURCE_IN_USE_FINALIZER not in finalizers:
        finalizers.append(RESOURCE_IN_USE_FINALIZER)
