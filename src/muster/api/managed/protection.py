"""The finalizer that keeps an object while other objects use it. The object's controller removes the finalizer."""

from typing import Any, Final

from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR
from muster.api.kueue.names import RESOURCE_IN_USE_FINALIZER

HELD_KINDS: Final = (CLUSTER_QUEUE, RESOURCE_FLAVOR)


def hold_while_used(document: dict[str, Any]) -> None:
    """Add the finalizer to a new object that others may use, such as a ClusterQueue or a ResourceFlavor."""
    finalizers = document["metadata"].setdefault("finalizers", [])
    if RESOURCE_IN_USE_FINALIZER not in finalizers:
        finalizers.append(RESOURCE_IN_USE_FINALIZER)
