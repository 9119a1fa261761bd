"""The Node object and its Lease, as a node reports itself. Pure."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from muster.api.coordination import Lease, LeaseSpec
from muster.api.core import Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from muster.api.embedded import NODE_KIND_LABEL
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.quantity import Quantity

LEASE_NAMESPACE = "kube-node-lease"
# The kubelet's: a lease of 40 s, renewed four times in that.
LEASE_SECONDS, RENEW_SECONDS = 40, 10.0
REGISTER_SECONDS = 2.0  # until a node that was refused registers again
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def labels(name: str, kind: str, architecture: str, more: Mapping[str, str]) -> dict[str, str]:
    """The labels that a node gives itself."""
    return {
        HOSTNAME_LABEL: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
        NODE_KIND_LABEL: kind,
        **more,
    }


def node(
    name: str,
    labels: Mapping[str, str],
    resources: Mapping[str, Quantity],
    address: str,
    info: NodeSystemInfo,
    conditions: tuple[NodeCondition, ...],
) -> Node:
    """The whole object."""
    return Node(
        metadata=ObjectMeta(name=name, labels=dict(labels)),
        status=NodeStatus(
            capacity=dict(resources),
            allocatable=dict(resources),
            conditions=conditions,
            addresses=(
                NodeAddress(type="InternalIP", address=address),
                NodeAddress(type="Hostname", address=name),
            ),
            node_info=info,
        ),
    )


def conditions(
    before: tuple[NodeCondition, ...], now: datetime, *, problem: str = "", full_disk: bool = False
) -> tuple[NodeCondition, ...]:
    """The node's conditions; ready unless there is a problem. Times of what has not changed are kept."""
    wanted = []
    for type, reason, message in _PRESSURES:
        if type == "DiskPressure" and full_disk:
            wanted.append((type, "True", "KubeletHasDiskPressure", "kubelet has disk pressure"))
        else:
            wanted.append((type, "False", reason, message))
    if problem:
        wanted.append(("Ready", "False", "KubeletNotReady", problem))
    else:
        wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    old = {condition.type: condition for condition in before}
    moment = now.replace(microsecond=0)
    found = []
    for type, status, reason, message in wanted:
        known = old.get(type)
        since = known.last_transition_time if known and known.status == status else moment
        found.append(
            NodeCondition(
                type=type,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=moment,
                last_transition_time=since,
            )
        )
    return tuple(found)


def same(one: tuple[NodeCondition, ...], other: tuple[NodeCondition, ...]) -> bool:
    """Whether conditions differ in nothing but the heartbeat."""

    def plain(conditions: tuple[NodeCondition, ...]) -> list[NodeCondition]:
        return [msgspec.structs.replace(condition, last_heartbeat_time=None) for condition in conditions]

    return plain(one) == plain(other)


def lease(name: str, uid: str, now: datetime) -> Lease:
    """The node's lease, new; it goes with the node."""
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=uid)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,)),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=LEASE_SECONDS, renew_time=now),
    )
