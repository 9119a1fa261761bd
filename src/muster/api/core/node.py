# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The node: a machine that runs pods."""

from datetime import datetime
from typing import Annotated

from muster.api.markers import ATOMIC, MERGED_SET, Int32, Required, Strings, merged_by, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


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


class ConfigMapNodeConfigSource(Struct):
    """A ConfigMap with settings of a node's agent; not used any more.

    namespace: namespace of the ConfigMap.
    name: name of the ConfigMap.
    uid: the very ConfigMap.
    resource_version: the ConfigMap as it was at that version.
    kubelet_config_key: the key.
    """

    namespace: Required[str] = ""
    name: Required[str] = ""
    uid: str = ""
    resource_version: str = ""
    kubelet_config_key: Required[str] = ""


class NodeConfigSource(Struct):
    """Where settings of a node's agent come from; not used any more.

    config_map: from a ConfigMap.
    """

    config_map: ConfigMapNodeConfigSource | None = None


class NodeConfigStatus(Struct):
    """Which settings a node's agent has; not used any more.

    assigned: those that it should have.
    active: those that it has.
    last_known_good: those that it falls back to.
    error: what is wrong with those that it should have.
    """

    assigned: NodeConfigSource | None = None
    active: NodeConfigSource | None = None
    last_known_good: NodeConfigSource | None = None
    error: str = ""


class AttachedVolume(Struct):
    """A volume that is attached to a node.

    name: name of the volume.
    device_path: the device on the node.
    """

    name: Required[str] = ""
    device_path: Required[str] = ""


class NodeRuntimeHandlerFeatures(Struct):
    """What a way of running containers can do.

    recursive_read_only_mounts: whether mounts below a read-only one can be so too.
    user_namespaces: whether containers can have user ids of their own.
    """

    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Struct):
    """A way of running containers.

    name: its name; empty for the default.
    features: what it can do.
    """

    name: str = ""
    features: NodeRuntimeHandlerFeatures | None = None


class NodeFeatures(Struct):
    """What whatever runs the containers can do, by whichever way.

    supplemental_groups_policy: whether it knows the policies of supplemental groups.
    """

    supplemental_groups_policy: bool | None = None


class NodeSwapStatus(Struct):
    """The swap of a machine.

    capacity: bytes.
    """

    capacity: int | None = None


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
    config_source: NodeConfigSource | None = None
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
    swap: NodeSwapStatus | None = None


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
    volumes_attached: Annotated[tuple[AttachedVolume, ...], ATOMIC] = ()
    config: NodeConfigStatus | None = None
    runtime_handlers: Annotated[tuple[NodeRuntimeHandler, ...], ATOMIC] = ()
    features: NodeFeatures | None = None
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
