# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The node: a machine that runs pods."""

from datetime import datetime

from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class Taint(Struct):
    """A mark that keeps a pod without a matching toleration off a node."""

    key: Required[str] = ""
    value: str = ""
    effect: Required[str] = ""
    time_added: datetime | None = None


class NodeSwapStatus(Struct):
    """The swap of a machine."""

    capacity: int | None = None


class NodeSpec(Struct):
    """The desired state of a node."""

    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    provider_id: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    external_id: str = ""


class NodeCondition(Struct):
    """One observed aspect of a node."""

    type: Required[str] = ""
    status: Required[str] = ""
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(Struct):
    """One address of a node."""

    type: Required[str] = ""
    address: Required[str] = ""


class DaemonEndpoint(Struct):
    """A port of a daemon of the node."""

    # Upstream spells this one with a capital on the wire.
    Port: Required[Int32] = 0


class NodeDaemonEndpoints(Struct):
    """The ports on which the daemons of a node listen."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeSystemInfo(Struct):
    """Facts about the machine of a node, such as its kernel and its architecture."""

    machine_id: Required[str] = ""
    system_uuid: Required[str] = ""
    boot_id: Required[str] = ""
    kernel_version: Required[str] = ""
    os_image: Required[str] = ""
    container_runtime_version: Required[str] = ""
    kubelet_version: Required[str] = ""
    kube_proxy_version: Required[str] = ""
    operating_system: Required[str] = ""
    architecture: Required[str] = ""
    swap: NodeSwapStatus | None = None


class ContainerImage(Struct):
    """An image that the node has."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct):
    """The observed state of a node."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: tuple[ContainerImage, ...] = ()


class Node(Struct):
    """A machine that runs pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
