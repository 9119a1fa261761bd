# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The node: a machine that runs pods."""

from datetime import datetime
from typing import Annotated, Any

from muster.api.markers import ATOMIC, MERGED_SET, Int32, Required, Strings, merged_by, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.quantity import ResourceList


class Taint(Struct):
    """Keeps pods that do not tolerate it off a node.

    key: its key.
    value: its value.
    effect: NoSchedule, PreferNoSchedule or NoExecute.
    time_added: when it was added.
    """

    key: Required[str] = ""
    value: str = ""
    effect: Annotated[Required[str], one_of("NoExecute", "NoSchedule", "PreferNoSchedule")] = ""
    time_added: datetime | None = None


class NodeSpec(Struct):
    """What is wanted of a node.

    pod_cidr: range of the pods' addresses.
    pod_cidrs: ranges of the pods' addresses, by address family.
    provider_id: name of the machine at its provider.
    unschedulable: whether new pods are kept off it.
    taints: what a pod must tolerate to run here.
    config_source: not used any more.
    external_id: not used any more.
    """

    pod_cidr: str = ""
    pod_cidrs: Annotated[tuple[str, ...], MERGED_SET] = ()
    provider_id: str = ""
    unschedulable: bool = False
    taints: Annotated[tuple[Taint, ...], ATOMIC] = ()
    config_source: dict[str, Any] | None = None
    external_id: str = ""


class NodeCondition(Struct):
    """One observed aspect of a node.

    type: Ready, MemoryPressure, DiskPressure, PIDPressure, NetworkUnavailable.
    status: True, False or Unknown.
    last_heartbeat_time: when the node last said so.
    last_transition_time: when the status last changed.
    reason: one word for the status.
    message: a sentence for people.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(Struct):
    """One way to reach a node.

    type: Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.
    address: the address.
    """

    type: Required[str] = ""
    address: Required[str] = ""


class DaemonEndpoint(Struct):
    """A port of a daemon of the node.

    Port: the port.
    """

    # Upstream spells this one with a capital on the wire.
    Port: Required[Int32] = 0


class NodeDaemonEndpoints(Struct):
    """Where the daemons of a node listen.

    kubelet_endpoint: the agent that runs the pods.
    """

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeSystemInfo(Struct):
    """What the machine is.

    machine_id: id of the installation.
    system_uuid: id of the hardware.
    boot_id: id of this boot.
    kernel_version: version of the kernel.
    os_image: name of the operating system.
    container_runtime_version: what runs the containers.
    kubelet_version: version of the agent.
    kube_proxy_version: deprecated.
    operating_system: linux.
    architecture: amd64, arm64, ...
    swap: the swap that it has.
    """

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
    swap: dict[str, Any] | None = None


class ContainerImage(Struct):
    """An image that the node has.

    names: its names.
    size_bytes: its size.
    """

    names: Strings = ()
    size_bytes: int = 0


class NodeStatus(Struct):
    """What was observed of a node.

    capacity: what the machine has.
    allocatable: what pods may use of it.
    phase: not used any more.
    conditions: observed aspects.
    addresses: ways to reach it.
    daemon_endpoints: where its daemons listen.
    node_info: what the machine is.
    images: images that it has.
    volumes_in_use: attachable volumes in use.
    volumes_attached: volumes attached to it.
    config: not used any more.
    runtime_handlers: ways of running containers that it has.
    features: features of what runs the containers.
    declared_features: features that its agent declares.
    """

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    phase: str = ""
    conditions: Annotated[tuple[NodeCondition, ...], merged_by("type")] = ()
    addresses: Annotated[tuple[NodeAddress, ...], merged_by("type")] = ()
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: Annotated[tuple[ContainerImage, ...], ATOMIC] = ()
    volumes_in_use: Strings = ()
    volumes_attached: Annotated[tuple[dict[str, Any], ...], ATOMIC] = ()
    config: dict[str, Any] | None = None
    runtime_handlers: Annotated[tuple[dict[str, Any], ...], ATOMIC] = ()
    features: dict[str, Any] | None = None
    declared_features: Strings = ()


class Node(Struct):
    """A machine that runs pods.

    metadata: what every object carries.
    spec: what is wanted of it.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
