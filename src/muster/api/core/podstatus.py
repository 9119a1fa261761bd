# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""What was observed of a pod, mostly by its node."""

from datetime import datetime
from typing import Annotated

from muster.api.core.container import ResourceRequirements
from muster.api.markers import ATOMIC, Int32, Required, map_by, merged_by, one_of, patched_by
from muster.api.meta import Struct
from muster.api.values.quantity import ResourceList


class ContainerStateWaiting(Struct):
    """The container does not run yet, or not again yet.

    reason: one word.
    message: a sentence.
    """

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct):
    """The container runs.

    started_at: since when.
    """

    started_at: datetime | None = None


class ContainerStateTerminated(Struct):
    """The container has ended.

    exit_code: its exit code.
    signal: the signal that ended it.
    reason: one word: Completed, Error, OOMKilled, ...
    message: a sentence, or what the container left in its termination message file.
    started_at: when it started.
    finished_at: when it ended.
    container_id: which run it was.
    """

    exit_code: Required[Int32] = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""


class ContainerState(Struct):
    """What a container does; exactly one, waiting if none.

    waiting: it does not run.
    running: it runs.
    terminated: it has ended.
    """

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class VolumeMountStatus(Struct):
    """How a volume is mounted.

    name: name of the volume.
    mount_path: where.
    read_only: whether writing is refused.
    recursive_read_only: whether that goes for mounts below it too.
    """

    name: Required[str] = ""
    mount_path: Required[str] = ""
    read_only: bool = False
    recursive_read_only: str | None = None


class LinuxContainerUser(Struct):
    """The user of a container's first process, on Linux.

    uid: its user id.
    gid: its group id.
    supplemental_groups: its further group ids.
    """

    uid: Required[int] = 0
    gid: Required[int] = 0
    supplemental_groups: Annotated[tuple[int, ...], ATOMIC] = ()


class ContainerUser(Struct):
    """The user of a container's first process.

    linux: on Linux.
    """

    linux: LinuxContainerUser | None = None


class ResourceHealth(Struct):
    """Health of a device.

    resource_id: the device.
    health: Healthy, Unhealthy or Unknown.
    """

    resource_id: Required[str] = ""
    health: str = ""


class ResourceStatus(Struct):
    """Health of the devices that a container has of a resource.

    name: name of the resource.
    resources: the devices.
    """

    name: Required[str] = ""
    resources: Annotated[tuple[ResourceHealth, ...], map_by("resourceID")] = ()


class ContainerStatus(Struct):
    """What was observed of a container.

    name: name of the container.
    state: what it does.
    last_state: how its last run ended.
    ready: whether its readiness probe passes, or it runs and has none.
    restart_count: how many times it was restarted.
    image: the image that it runs.
    image_id: that image by digest.
    container_id: which run it is, as <runtime>://<id>.
    started: whether its startup probe has passed.
    allocated_resources: requests that the node has set aside.
    resources: requests and limits in effect.
    volume_mounts: volumes as mounted.
    user: the user that its first process has.
    allocated_resources_status: health of its devices.
    stop_signal: the signal that asks it to end.
    """

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
    volume_mounts: Annotated[tuple[VolumeMountStatus, ...], merged_by("mountPath")] = ()
    user: ContainerUser | None = None
    allocated_resources_status: Annotated[tuple[ResourceStatus, ...], merged_by("name")] = ()
    stop_signal: str | None = None


class PodCondition(Struct):
    """One observed aspect of a pod.

    type: PodScheduled, Initialized, ContainersReady, Ready, DisruptionTarget, PodReadyToStartContainers, ...
    observed_generation: the generation of the pod that it is about.
    status: True, False or Unknown.
    last_probe_time: when it was last looked at.
    last_transition_time: when the status last changed.
    reason: one word for the status.
    message: a sentence for people.
    """

    type: Required[str] = ""
    observed_generation: int = 0
    status: Required[str] = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class HostIP(Struct):
    """An address of the node.

    ip: the address.
    """

    ip: Required[str] = ""


class PodIP(Struct):
    """An address of the pod.

    ip: the address.
    """

    ip: Required[str] = ""


class PodResourceClaimStatus(Struct):
    """The claim that stands for an entry of the pod's resourceClaims.

    name: name of the entry.
    resource_claim_name: the claim that was made; none was needed if absent.
    """

    name: Required[str] = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct):
    """Which request of a claim stands for an extended resource of a container.

    container_name: name of the container.
    resource_name: name of the resource.
    request_name: name of the request.
    """

    container_name: Required[str] = ""
    resource_name: Required[str] = ""
    request_name: Required[str] = ""


class PodExtendedResourceClaimStatus(Struct):
    """The claim that stands for a pod's extended resources.

    request_mappings: which of its requests stands for what.
    resource_claim_name: name of the claim.
    """

    request_mappings: Required[Annotated[tuple[ContainerExtendedResourceRequest, ...], ATOMIC]] = ()
    resource_claim_name: Required[str] = ""


class PodStatus(Struct):
    """What was observed of a pod.

    observed_generation: the generation of the pod that the status is about.
    phase: Pending, Running, Succeeded, Failed or Unknown.
    conditions: observed aspects.
    message: a sentence on why the pod is in this state.
    reason: one word for it, such as Evicted.
    nominated_node_name: node on which room is being made for the pod.
    host_ip: address of the node.
    host_ips: all addresses of the node.
    pod_ip: address of the pod.
    pod_ips: all addresses of the pod.
    start_time: when the node took the pod.
    init_container_statuses: the init containers.
    container_statuses: the containers.
    qos_class: Guaranteed, Burstable or BestEffort.
    ephemeral_container_statuses: the ephemeral containers.
    resize: state of a change of resources.
    resource_claim_statuses: claims that were made for the pod.
    extended_resource_claim_status: the claim that stands for extended resources.
    allocated_resources: requests of the pod as a whole that the node has set aside.
    resources: requests and limits of the pod as a whole in effect.
    """

    observed_generation: int = 0
    phase: Annotated[str, one_of("Failed", "Pending", "Running", "Succeeded", "Unknown")] = ""
    conditions: Annotated[tuple[PodCondition, ...], merged_by("type")] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    host_ips: Annotated[tuple[HostIP, ...], patched_by("ip")] = ()
    pod_ip: str = ""
    pod_ips: Annotated[tuple[PodIP, ...], merged_by("ip")] = ()
    start_time: datetime | None = None
    init_container_statuses: Annotated[tuple[ContainerStatus, ...], ATOMIC] = ()
    container_statuses: Annotated[tuple[ContainerStatus, ...], ATOMIC] = ()
    qos_class: Annotated[str, one_of("BestEffort", "Burstable", "Guaranteed")] = ""
    ephemeral_container_statuses: Annotated[tuple[ContainerStatus, ...], ATOMIC] = ()
    resize: str = ""
    resource_claim_statuses: Annotated[tuple[PodResourceClaimStatus, ...], merged_by("name", retain_keys=True)] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
