"""Compute the users, groups and capabilities of a container's processes from its security context.

Also list the fields of security contexts that a process node does not enforce.
"""

import os
from collections.abc import Iterator

from muster.api.core import Container, Pod, PodSecurityContext, PodSpec, SecurityContext
from muster.cluster.nodes.container.environment import ConfigError
from muster.cluster.nodes.machine.isolation import Isolation

# The index of a capability is its number in the kernel (linux/capability.h).
_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
_ALL_NUMBERS = range(64)  # includes the numbers of newer kernels
_OWN_MOUNTS = ("namespaces", "user-namespaces")
_OWN_USERS = ("user-namespaces", "bubblewrap")


def find_ids(pod: Pod, context: SecurityContext) -> tuple[int, int, list[int]] | None:
    """Return the user, group and supplementary groups of a container's processes; None to keep the node's own.

    Raises `ConfigError` if the node cannot set the user and group, or if `runAsNonRoot` forbids the user.
    """
    pod_context = pod.spec.security_context or PodSecurityContext()
    uid = pod_context.run_as_user if context.run_as_user is None else context.run_as_user
    gid = pod_context.run_as_group if context.run_as_group is None else context.run_as_group
    not_root = pod_context.run_as_non_root if context.run_as_non_root is None else context.run_as_non_root
    own_uid, own_gid = os.geteuid(), os.getegid()
    if not_root and (own_uid if uid is None else uid) == 0:
        raise ConfigError("container has runAsNonRoot and would run as root: set runAsUser, or run the node as a user")
    if own_uid != 0:
        if (uid is not None and uid != own_uid) or (gid is not None and gid != own_gid):
            user_and_group = f"user {own_uid if uid is None else uid}, group {own_gid if gid is None else gid}"
            raise ConfigError(
                f"cannot run as {user_and_group}: the node itself runs as user {own_uid}, group {own_gid}"
            )
        return None
    groups = _list_volume_groups(pod_context)
    if uid is None and gid is None and not groups:
        return None
    return uid or 0, gid or 0, groups


def list_dropped_capabilities(context: SecurityContext) -> list[int]:
    """Return the numbers of the capabilities that a container must not have. Unknown names are ignored."""
    capabilities = context.capabilities
    if capabilities is None:
        return []
    drop, add = ({_strip_cap_prefix(name) for name in names} for names in (capabilities.drop, capabilities.add))
    names_by_number = dict(enumerate(_CAPABILITIES))
    numbers = _ALL_NUMBERS if "ALL" in drop else [number for number, name in names_by_number.items() if name in drop]
    return [] if "ALL" in add else [number for number in numbers if names_by_number.get(number) not in add]


def closes_root(context: SecurityContext | None, isolation: Isolation) -> bool:
    """Return whether the container's root file system is read-only.

    The spec must request that, and the isolation must give the container a mount namespace of its own.
    """
    return context is not None and bool(context.read_only_root_filesystem) and isolation.kind in _OWN_MOUNTS


def explain_unenforced(pod: Pod, isolation: Isolation) -> str:
    """Return a sentence, for an event, about security fields that this node does not enforce; "" if there are none."""
    unmet = [
        *_list_unmet_of_spec(pod.spec, isolation),
        *_list_unmet_of_pod(pod.spec.security_context or PodSecurityContext()),
    ]
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        unmet += [f"{what} (container {container.name})" for what in _list_unmet_of_container(container, isolation)]
    return f"This node does not do what the security context asks: {', '.join(unmet)}." if unmet else ""


def _list_unmet_of_spec(spec: PodSpec, isolation: Isolation) -> Iterator[str]:
    """Yield the fields of the pod's spec that this node does not enforce.

    All pods share the machine's network and IPC. If containers have PID namespaces, the containers of a pod do not
    share one.
    """
    if spec.host_pid and isolation.own_pids:
        yield "hostPID"
    if spec.share_process_namespace and isolation.own_pids:
        yield "shareProcessNamespace"
    if spec.host_users is False and isolation.kind not in _OWN_USERS:
        yield "hostUsers: false"


def _list_unmet_of_pod(context: PodSecurityContext) -> Iterator[str]:
    yield from _list_unmet_profiles(context)
    if context.sysctls:
        yield "sysctls"
    if context.supplemental_groups_policy == "Merge":
        yield "supplementalGroupsPolicy Merge"
    if os.geteuid() != 0 and not set(_list_volume_groups(context)) <= {os.getegid(), *os.getgroups()}:
        yield "fsGroup and supplementalGroups, as the node does not run as root"


def _list_unmet_of_container(container: Container, isolation: Isolation) -> Iterator[str]:
    context = container.security_context
    if context is None:
        return
    yield from _list_unmet_profiles(context)
    if context.read_only_root_filesystem and not closes_root(context, isolation):
        yield "readOnlyRootFilesystem"
    if context.proc_mount == "Default":
        yield "procMount Default"
    if os.geteuid() != 0:
        if context.privileged:
            yield "privileged, as the node does not run as root"
        if context.capabilities is not None and context.capabilities.add:
            yield "added capabilities, as the node does not run as root"


def _list_unmet_profiles(context: PodSecurityContext | SecurityContext) -> Iterator[str]:
    if context.seccomp_profile is not None and context.seccomp_profile.type != "Unconfined":
        yield f"seccompProfile {context.seccomp_profile.type}"
    if context.app_armor_profile is not None and context.app_armor_profile.type != "Unconfined":
        yield f"appArmorProfile {context.app_armor_profile.type}"
    if context.se_linux_options is not None:
        yield "seLinuxOptions"
    if context.windows_options is not None:
        yield "windowsOptions"


def _list_volume_groups(context: PodSecurityContext) -> list[int]:
    return [*context.supplemental_groups, *([context.fs_group] if context.fs_group is not None else [])]


def _strip_cap_prefix(capability: str) -> str:
    return capability.upper().removeprefix("CAP_")
