"""What nodes say of themselves."""

from muster.api.conditions import is_true
from muster.api.core import Node, Taint

# Where a node is, at the narrowest: its own name for most.
HOSTNAME_LABEL = "kubernetes.io/hostname"

DISK_PRESSURE = "DiskPressure"


def is_ready(node: Node) -> bool:
    """Whether its condition Ready is True."""
    return is_true(node.status.conditions, "Ready")


def taints_of(node: Node) -> tuple[Taint, ...]:
    """Its taints, with the one of a full disk (upstream TaintNodesByCondition), which takes no more pods.

    Of what our nodes say of themselves no other condition keeps pods away; on a real cluster
    kube-controller-manager has written all such taints.
    """
    full = Taint(key="node.kubernetes.io/disk-pressure", effect="NoSchedule")
    written = tuple(node.spec.taints)
    if not is_true(node.status.conditions, DISK_PRESSURE) or any(taint.key == full.key for taint in written):
        return written
    return (*written, full)
