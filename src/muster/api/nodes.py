"""What nodes say of themselves."""

from muster.api.conditions import is_true
from muster.api.core import Node

# Where a node is, at the narrowest: its own name for most.
HOSTNAME_LABEL = "kubernetes.io/hostname"


def is_ready(node: Node) -> bool:
    """Whether its condition Ready is True."""
    return is_true(node.status.conditions, "Ready")
