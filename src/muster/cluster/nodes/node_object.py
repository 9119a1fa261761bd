"""The Node object and its Lease, as a node reports itself. Pure."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from msgspec.structs import replace

from muster.api.core import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from muster.api.groups.coordination import Lease, LeaseSpec
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.nodes import DISK_PRESSURE, HOSTNAME_LABEL
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, PROCESS
from muster.api.ours.gpus import GPU_PROBLEM
from muster.api.values.quantity import Quantity, amount

NOTHING: Mapping[str, int] = MappingProxyType({})
NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})
LEASE_NAMESPACE = "kube-node-lease"
# The kubelet's: a lease of 40 s, renewed four times in that.
LEASE_SECONDS, RENEW_SECONDS = 40, 10.0
REGISTER_SECONDS = 2.0  # until a node that was refused registers again
# Pods of others expect the image that they name: only those come that say that they do without.
TAINT = Taint(key=NODE_KIND_LABEL, value=PROCESS, effect="NoSchedule")
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    (DISK_PRESSURE, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
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
    addresses: tuple[NodeAddress, ...],
    info: NodeSystemInfo,
    conditions: tuple[NodeCondition, ...],
    *,
    port: int | None = None,
    lacking: Mapping[str, int] = NOTHING,
    annotations: Mapping[str, str] = NO_ANNOTATIONS,
) -> Node:
    """The whole object. port: of its HTTPS endpoint, 0 for none; unless it is said, nothing is said of one.

    lacking: how much of its resources no pod may get for the time being, in whole units.
    """
    endpoint = None if port is None else DaemonEndpoint(Port=port)
    return Node(
        metadata=ObjectMeta(name=name, labels=dict(labels), annotations=dict(annotations)),
        status=NodeStatus(
            capacity=dict(resources),
            allocatable={one: _less(one, quantity, lacking.get(one, 0)) for one, quantity in resources.items()},
            conditions=conditions,
            addresses=addresses,
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=endpoint),
            node_info=info,
        ),
    )


def _less(resource: str, quantity: Quantity, lacking: int) -> Quantity:
    return str(max(amount(resource, quantity) - lacking, 0)) if lacking else quantity


def of_guest(node: Node, identity: str) -> Node:
    """The same of a machine in a cluster of others: whose it is, and what keeps the pods of others away."""
    return replace(
        node,
        metadata=replace(node.metadata, annotations={**node.metadata.annotations, NODE_IDENTITY: identity}),
        spec=NodeSpec(taints=(TAINT,)),
    )


def conditions(
    before: tuple[NodeCondition, ...],
    now: datetime,
    *,
    problem: str = "",
    full_disk: bool = False,
    gpu_problem: str | None = None,
) -> tuple[NodeCondition, ...]:
    """The node's conditions; ready unless there is a problem. Times of what has not changed are kept.

    gpu_problem: what is wrong with its GPUs; None for a node without any.
    """
    wanted = []
    for type, reason, message in _PRESSURES:
        if type == DISK_PRESSURE and full_disk:
            wanted.append((type, "True", "KubeletHasDiskPressure", "kubelet has disk pressure"))
        else:
            wanted.append((type, "False", reason, message))
    if gpu_problem is not None:
        well = ("False", "GPUsAreWell", "no GPU is ill")
        wanted.append((GPU_PROBLEM, *(("True", "GPUsAreIll", gpu_problem) if gpu_problem else well)))
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
        return [replace(condition, last_heartbeat_time=None) for condition in conditions]

    return plain(one) == plain(other)


def lease(name: str, uid: str, now: datetime) -> Lease:
    """The node's lease, new; it goes with the node."""
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=uid)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,)),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=LEASE_SECONDS, renew_time=now),
    )
