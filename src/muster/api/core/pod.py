# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The pod: containers that run together on one node."""

from muster.api.core.container import Container, EphemeralContainer, ResourceRequirements
from muster.api.core.podstatus import PodStatus
from muster.api.core.references import LocalObjectReference, ObjectReference
from muster.api.core.scheduling import Affinity, Toleration, TopologySpreadConstraint
from muster.api.core.security import (
    AppArmorProfile,
    SeccompProfile,
    SELinuxOptions,
    WindowsSecurityContextOptions,
)
from muster.api.core.volumes import Volume
from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class Sysctl(Struct):
    """A kernel parameter of the pod."""

    name: Required[str] = ""
    value: Required[str] = ""


class PodSecurityContext(Struct):
    """The security settings of all containers of a pod, which a container can override."""

    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    sysctls: tuple[Sysctl, ...] = ()
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None


class HostAlias(Struct):
    """A line of the pod's hosts file."""

    ip: Required[str] = ""
    hostnames: tuple[str, ...] = ()


class PodDNSConfigOption(Struct):
    """An option of the resolver."""

    name: str = ""
    value: str | None = None


class PodDNSConfig(Struct):
    """Settings of the resolver, in addition to those of the DNS policy."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class PodReadinessGate(Struct):
    """A condition that must be True for the pod to be ready."""

    condition_type: Required[str] = ""


class PodSchedulingGate(Struct):
    """A gate that keeps the pod from being scheduled until it is removed."""

    name: Required[str] = ""


class PodResourceClaim(Struct):
    """A claim on devices that the pod's containers can use. Exactly one source is set."""

    name: Required[str] = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodOS(Struct):
    """The operating system of the pod."""

    name: Required[str] = ""


class PodSchedulingGroup(Struct):
    """The group of pods with which the pod is scheduled."""

    pod_group_name: str | None = None


class PodSpec(Struct):
    """The desired state of a pod: what it runs, where it may run, and how it ends."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: Required[tuple[Container, ...]] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str = ""
    node_selector: dict[str, str] = {}
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: ResourceList = {}
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    set_hostname_as_fqdn: bool | None = None
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    scheduling_group: PodSchedulingGroup | None = None


class Pod(Struct):
    """Containers that run together on one node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Struct):
    """A template of the pods that a controller creates."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Binding(Struct):
    """A request to bind a pod to a node."""

    metadata: ObjectMeta = ObjectMeta()
    target: Required[ObjectReference] = ObjectReference()
