# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The observed state of a pod, written mostly by its node."""

from datetime import datetime

from muster.api.core.container import ResourceRequirements
from muster.api.markers import Int32, Required
from muster.api.meta import Struct
from muster.api.values.quantity import ResourceList


class ContainerStateWaiting(Struct):
    """The state of a container that does not run yet or waits for its restart."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct):
    """The state of a container that runs."""

    started_at: datetime | None = None


class ContainerStateTerminated(Struct):
    """The state of a container that has ended."""

    exit_code: Required[Int32] = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""


class ContainerState(Struct):
    """The state of a container. At most one field is set; without one the container waits."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class VolumeMountStatus(Struct):
    """The mount of a volume."""

    name: Required[str] = ""
    mount_path: Required[str] = ""
    read_only: bool = False
    recursive_read_only: str | None = None


class LinuxContainerUser(Struct):
    """The user of a container's first process, on Linux."""

    uid: Required[int] = 0
    gid: Required[int] = 0
    supplemental_groups: tuple[int, ...] = ()


class ContainerUser(Struct):
    """The user of a container's first process."""

    linux: LinuxContainerUser | None = None


class ResourceHealth(Struct):
    """The health of a device."""

    resource_id: Required[str] = ""
    health: str = ""


class ResourceStatus(Struct):
    """The health of the devices of one resource that a container has."""

    name: Required[str] = ""
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStatus(Struct):
    """The observed state of a container."""

    name: Required[str] = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: Required[bool] = False
    restart_count: Required[Int32] = 0
    image: Required[str] = ""
    image_id: Required[str] = ""
    container_id: str = ""
    started: bool | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()
    user: ContainerUser | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    stop_signal: str | None = None


class PodCondition(Struct):
    """One observed aspect of a pod."""

    type: Required[str] = ""
    observed_generation: int = 0
    status: Required[str] = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class HostIP(Struct):
    """An address of the node."""

    ip: Required[str] = ""


class PodIP(Struct):
    """An address of the pod."""

    ip: Required[str] = ""


class PodResourceClaimStatus(Struct):
    """The claim that was created or found for an entry of the pod's resourceClaims."""

    name: Required[str] = ""
    resource_claim_name: str | None = None


class PodStatus(Struct):
    """The observed state of a pod."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    host_ips: tuple[HostIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: datetime | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
