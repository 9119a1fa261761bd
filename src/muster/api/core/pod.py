# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The pod: what runs together on one node."""

from typing import Annotated

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
from muster.api.markers import ATOMIC, ATOMIC_MAP, Int32, Required, Strings, merged_by, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class Sysctl(Struct):
    """A kernel parameter of the pod.

    name: its name.
    value: its value.
    """

    name: Required[str] = ""
    value: Required[str] = ""


class PodSecurityContext(Struct):
    """Rights of all containers of a pod, where a container says nothing else.

    se_linux_options: SELinux label.
    windows_options: what concerns Windows only.
    run_as_user: user id of the processes.
    run_as_group: group id of the processes.
    run_as_non_root: whether to refuse to run as user 0.
    supplemental_groups: further group ids of the processes.
    supplemental_groups_policy: Merge with, or Strict instead of, the groups that the image gives the user.
    fs_group: group id that owns the files of volumes.
    sysctls: kernel parameters.
    fs_group_change_policy: OnRootMismatch or Always: when the owner of files is changed.
    seccomp_profile: filter of system calls.
    app_armor_profile: AppArmor profile.
    se_linux_change_policy: MountOption or Recursive: how volumes are labelled.
    """

    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: Annotated[tuple[int, ...], ATOMIC] = ()
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    sysctls: Annotated[tuple[Sysctl, ...], ATOMIC] = ()
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None


class HostAlias(Struct):
    """A line of the pod's hosts file.

    ip: the address.
    hostnames: its names.
    """

    ip: Required[str] = ""
    hostnames: Strings = ()


class PodDNSConfigOption(Struct):
    """An option of the resolver.

    name: its name.
    value: its value.
    """

    name: str = ""
    value: str | None = None


class PodDNSConfig(Struct):
    """Settings of the resolver, added to what the DNS policy gives.

    nameservers: addresses of name servers.
    searches: search domains.
    options: options of the resolver.
    """

    nameservers: Strings = ()
    searches: Strings = ()
    options: Annotated[tuple[PodDNSConfigOption, ...], ATOMIC] = ()


class PodReadinessGate(Struct):
    """A condition that must be True for the pod to be ready.

    condition_type: type of the condition.
    """

    condition_type: Required[str] = ""


class PodSchedulingGate(Struct):
    """Something that holds the pod back from scheduling until it is removed.

    name: its name.
    """

    name: Required[str] = ""


class PodResourceClaim(Struct):
    """A claim on devices that the pod's containers can use; exactly one source.

    name: unique in the pod; a DNS label.
    resource_claim_name: a ResourceClaim in the pod's namespace.
    resource_claim_template_name: a template from which a claim is made for the pod.
    """

    name: Required[str] = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodOS(Struct):
    """The operating system that the pod is made for.

    name: linux or windows.
    """

    name: Required[str] = ""


class PodSchedulingGroup(Struct):
    """The group of pods that is scheduled together.

    pod_group_name: name of the PodGroup, in the pod's namespace.
    """

    pod_group_name: str | None = None


class PodSpec(Struct):
    """What a pod runs, where it may run, and how it ends.

    volumes: files that containers can mount.
    init_containers: run to their end one by one before the others start; sidecars (restartPolicy Always) keep running.
    containers: run together; at least one.
    ephemeral_containers: put into the running pod through its subresource.
    restart_policy: Always, OnFailure or Never: when an ended container is started again.
    termination_grace_period_seconds: from being asked to end to being killed; 30 if absent.
    active_deadline_seconds: the pod fails after being active for so long.
    dns_policy: ClusterFirst, ClusterFirstWithHostNet, Default or None.
    node_selector: labels that the node must have.
    service_account_name: identity of the pod's processes.
    service_account: old name of serviceAccountName.
    automount_service_account_token: whether a token is mounted.
    node_name: the node; set by the scheduler.
    host_network: whether it uses the node's network.
    host_pid: whether it sees the node's processes.
    host_ipc: whether it uses the node's IPC.
    share_process_namespace: whether the containers see each other's processes.
    security_context: rights of all containers.
    image_pull_secrets: credentials for pulling images.
    hostname: host name of the pod; its name if empty.
    subdomain: with it the full name is <hostname>.<subdomain>.<namespace>.svc.<cluster domain>.
    affinity: constraints on where to run.
    scheduler_name: who schedules the pod.
    tolerations: taints of nodes that the pod bears.
    host_aliases: further lines of the hosts file.
    priority_class_name: name of the PriorityClass.
    priority: the greater, the more important; set from the class.
    dns_config: settings of the resolver.
    readiness_gates: further conditions of being ready.
    runtime_class_name: the RuntimeClass that runs it.
    enable_service_links: whether services of the namespace are given as environment variables.
    preemption_policy: Never or PreemptLowerPriority.
    overhead: resources of running a pod at all; set from the RuntimeClass.
    topology_spread_constraints: how evenly matching pods are spread.
    set_hostname_as_fqdn: whether the host name is the full name.
    os: the operating system.
    host_users: whether it uses the node's user ids.
    scheduling_gates: what holds it back from scheduling.
    resource_claims: claims on devices.
    resources: what all containers together need and may use.
    hostname_override: host name that wins over hostname and subdomain, without a DNS record.
    scheduling_group: the group that it is scheduled with.
    """

    volumes: Annotated[tuple[Volume, ...], merged_by("name", retain_keys=True)] = ()
    init_containers: Annotated[tuple[Container, ...], merged_by("name")] = ()
    containers: Required[Annotated[tuple[Container, ...], merged_by("name")]] = ()
    ephemeral_containers: Annotated[tuple[EphemeralContainer, ...], merged_by("name")] = ()
    restart_policy: Annotated[str, one_of("Always", "Never", "OnFailure")] = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: Annotated[str, one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")] = ""
    node_selector: Annotated[dict[str, str], ATOMIC_MAP] = {}
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: Annotated[tuple[LocalObjectReference, ...], merged_by("name")] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: Annotated[tuple[Toleration, ...], ATOMIC] = ()
    host_aliases: Annotated[tuple[HostAlias, ...], merged_by("ip")] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: Annotated[tuple[PodReadinessGate, ...], ATOMIC] = ()
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: Annotated[str, one_of("Never", "PreemptLowerPriority")] | None = None
    overhead: ResourceList = {}
    topology_spread_constraints: Annotated[
        tuple[TopologySpreadConstraint, ...], merged_by("topologyKey", "whenUnsatisfiable")
    ] = ()
    set_hostname_as_fqdn: bool | None = None
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: Annotated[tuple[PodSchedulingGate, ...], merged_by("name")] = ()
    resource_claims: Annotated[tuple[PodResourceClaim, ...], merged_by("name", retain_keys=True)] = ()
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    scheduling_group: PodSchedulingGroup | None = None


class Pod(Struct):
    """Containers that run together on one node.

    metadata: what every object carries.
    spec: what it runs, where it may run, and how it ends.
    status: what was observed, mostly by the node.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Struct):
    """Describes the pods that a controller makes.

    metadata: labels and annotations of the pods.
    spec: the pods' spec.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Binding(Struct):
    """Ties a pod to a node.

    metadata: names the pod.
    target: the node.
    """

    metadata: ObjectMeta = ObjectMeta()
    target: Required[ObjectReference] = ObjectReference()
