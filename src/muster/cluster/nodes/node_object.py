"""Build the Node object and the Lease of a process node. Pure."""

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
from muster.api.nodes import DISK_PRESSURE, DISK_PRESSURE_MESSAGE, HOSTNAME_LABEL
from muster.api.ours.embedded import FENCED_ANNOTATION, NODE_IDENTITY, NODE_KIND_LABEL, PROCESS
from muster.api.ours.gpus import GPU_PROBLEM
from muster.api.values.quantity import Quantity, parse_amount

NOTHING: Mapping[str, int] = MappingProxyType({})
NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})
LEASE_NAMESPACE = "kube-node-lease"
# The kubelet's values: a Lease of 40 s, renewed four times while it lasts.
LEASE_SECONDS, RENEW_SECONDS = 40, 10.0
REGISTER_SECONDS = 2.0  # the pause before a refused node retries to register
# Pods of other users expect their container image, so only pods that tolerate this taint may run on the node.
TAINT = Taint(key=NODE_KIND_LABEL, value=PROCESS, effect="NoSchedule")
_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    (DISK_PRESSURE, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def make_labels(name: str, kind: str, architecture: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a node sets on its Node object. more: further labels, such as the GPUs' labels."""
    return {
        HOSTNAME_LABEL: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
        NODE_KIND_LABEL: kind,
        **more,
    }


def make_node(
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
    """Return the whole Node object.

    port: the port of the node's HTTPS endpoint; 0 if the node has none. None leaves the endpoint out of the object.
    lacking: how many units of each resource no pod may use at present.
    """
    endpoint = None if port is None else DaemonEndpoint(Port=port)
    return Node(
        metadata=ObjectMeta(name=name, labels=dict(labels), annotations=dict(annotations)),
        status=NodeStatus(
            capacity=dict(resources),
            allocatable={one: _subtract(one, quantity, lacking.get(one, 0)) for one, quantity in resources.items()},
            conditions=conditions,
            addresses=addresses,
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=endpoint),
            node_info=info,
        ),
    )


def _subtract(resource: str, quantity: Quantity, lacking: int) -> Quantity:
    return str(max(parse_amount(resource, quantity) - lacking, 0)) if lacking else quantity


def make_joined_node(node: Node, identity: str) -> Node:
    """Return the Node of a machine that joins a cluster, with its identity and the taint that repels other pods.

    An annotation declares that the machine terminates its own pods before the server may replace them
    (`muster.cluster.nodes.fence`).
    """
    own = {NODE_IDENTITY: identity, FENCED_ANNOTATION: "true"}
    return replace(
        node,
        metadata=replace(node.metadata, annotations={**node.metadata.annotations, **own}),
        spec=NodeSpec(taints=(TAINT,)),
    )


def make_conditions(
    before: tuple[NodeCondition, ...],
    now: datetime,
    *,
    problem: str = "",
    full_disk: str = "",
    gpu_problem: str | None = None,
) -> tuple[NodeCondition, ...]:
    """Return the node's conditions. Ready is True unless there is a problem.

    Unchanged conditions keep their transition times.

    problem: why the node accepts no pods; "" if it does.
    full_disk: which disk is full; "" if none is.
    gpu_problem: the problem of the node's GPUs; None for a node without GPUs.
    """
    wanted = []
    for type, reason, message in _PRESSURES:
        if type == DISK_PRESSURE and full_disk:
            wanted.append((type, "True", "KubeletHasDiskPressure", f"{DISK_PRESSURE_MESSAGE}: {full_disk}"))
        else:
            wanted.append((type, "False", reason, message))
    if gpu_problem is not None:
        well = ("False", "GPUsAreWell", "no GPU is ill")
        wanted.append((GPU_PROBLEM, *(("True", "GPUsAreIll", gpu_problem) if gpu_problem else well)))
    if problem:
        wanted.append(("Ready", "False", "KubeletNotReady", problem))
    else:
        wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    known_by_type = {condition.type: condition for condition in before}
    moment = now.replace(microsecond=0)
    updated = []
    for type, status, reason, message in wanted:
        known = known_by_type.get(type)
        since = known.last_transition_time if known and known.status == status else moment
        updated.append(
            NodeCondition(
                type=type,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=moment,
                last_transition_time=since,
            )
        )
    return tuple(updated)


def is_same(desired: tuple[NodeCondition, ...], known: tuple[NodeCondition, ...]) -> bool:
    """Return whether the known conditions equal the desired ones, apart from the heartbeat's time.

    Ignore known conditions of other types.
    """
    known_by_type = {condition.type: replace(condition, last_heartbeat_time=None) for condition in known}
    return all(known_by_type.get(one.type) == replace(one, last_heartbeat_time=None) for one in desired)


def make_lease(name: str, uid: str, now: datetime, holder: str = "", seconds: int = LEASE_SECONDS) -> Lease:
    """Return a new Lease of the node, which is deleted with the node.

    uid: the UID of the Node.
    holder: the agent that renews the Lease; by default the node's name, as with kubelets.
    seconds: the duration of the Lease.
    """
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=uid)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,)),
        spec=LeaseSpec(holder_identity=holder or name, lease_duration_seconds=seconds, renew_time=now),
    )
