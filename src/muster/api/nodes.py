"""Read the state of nodes: whether one is ready, is lost, or has a full disk."""

from muster.api.conditions import find, is_true
from muster.api.core import Node, Taint

# The label of the smallest place in which a node is. It is the name of the node for most nodes.
HOSTNAME_LABEL = "kubernetes.io/hostname"

DISK_PRESSURE = "DiskPressure"
# The kubelet's message. Muster's nodes add which disk is full.
DISK_PRESSURE_MESSAGE = "kubelet has disk pressure"

# Kubernetes' taints of a node that the server no longer hears from, of a node that reports that it takes no pods, and
# of a node that an administrator declared off for good.
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"


def is_ready(node: Node) -> bool:
    """Return whether the node's condition Ready is True."""
    return is_true(node.status.conditions, "Ready")


def has_full_disk(node: Node) -> bool:
    """Return whether the node reports that its disk is full, and takes no more pods."""
    return is_true(node.status.conditions, DISK_PRESSURE)


def describe_full_disk(node: Node) -> str:
    """Return which disk of the node is full, such as `the disk of /var/lib/muster is full`; "" if it is unknown."""
    condition = find(node.status.conditions, DISK_PRESSURE)
    return condition.message.removeprefix(DISK_PRESSURE_MESSAGE).lstrip(": ") if condition is not None else ""


def has_taint(node: Node, key: str) -> bool:
    """Return whether the node has a taint with this key."""
    return any(taint.key == key for taint in node.spec.taints)


def taints_of(node: Node) -> tuple[Taint, ...]:
    """Return the node's taints, and the taint `disk-pressure` if the node reports a full disk but lacks the taint.

    No other condition of Muster's own nodes needs a taint. On a real cluster, kube-controller-manager writes the taints
    of all conditions (TaintNodesByCondition).
    """
    full = Taint(key="node.kubernetes.io/disk-pressure", effect="NoSchedule")
    written = tuple(node.spec.taints)
    if not has_full_disk(node) or any(taint.key == full.key for taint in written):
        return written
    return (*written, full)
