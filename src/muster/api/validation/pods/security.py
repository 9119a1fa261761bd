"""The rules of security contexts."""

import re

from muster.api.core import PodSecurityContext, PodSpec, SecurityContext, Sysctl
from muster.api.core.security import AppArmorProfile, SeccompProfile
from muster.api.validation import names, paths
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    required,
    too_long,
    unsupported,
)

_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PROFILE_PATH = 4095
_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}"
_MAX_SYSCTL = 253
_sysctl = re.compile(_SYSCTL)

_NOT_ON_WINDOWS = {
    "app_armor_profile": "appArmorProfile",
    "se_linux_options": "seLinuxOptions",
    "seccomp_profile": "seccompProfile",
    "capabilities": "capabilities",
    "read_only_root_filesystem": "readOnlyRootFilesystem",
    "privileged": "privileged",
    "allow_privilege_escalation": "allowPrivilegeEscalation",
    "proc_mount": "procMount",
    "fs_group": "fsGroup",
    "fs_group_change_policy": "fsGroupChangePolicy",
    "sysctls": "sysctls",
    "run_as_user": "runAsUser",
    "run_as_group": "runAsGroup",
    "supplemental_groups": "supplementalGroups",
    "supplemental_groups_policy": "supplementalGroupsPolicy",
    "se_linux_change_policy": "seLinuxChangePolicy",
}


def validate_container_context(path: str, context: SecurityContext | None, *, host_users: bool) -> Errors:
    """Check the security context of a container."""
    if context is None:
        return
    yield from _validate_user_and_group(path, context)
    if context.proc_mount is not None:
        if context.proc_mount not in ("Default", "Unmasked"):
            yield unsupported(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
        if host_users and context.proc_mount == "Unmasked":
            yield invalid(f"{path}.procMount", context.proc_mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _validate_seccomp(f"{path}.seccompProfile", context.seccomp_profile)
    if context.allow_privilege_escalation is False:
        clash = "cannot set `allowPrivilegeEscalation` to false and"
        if context.privileged:
            yield invalid(path, context, f"{clash} `privileged` to true")
        if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
            yield invalid(path, context, f"{clash} `capabilities.Add` CAP_SYS_ADMIN")
    yield from _validate_app_armor(f"{path}.appArmorProfile", context.app_armor_profile)


def validate_pod_context(path: str, spec: PodSpec) -> Errors:
    """Check the security context of a pod.

    path: the path of `securityContext`.
    """
    context = spec.security_context
    if context is None:
        return
    if context.fs_group is not None:
        yield from make_errors(f"{path}.fsGroup", context.fs_group, names.user_or_group_id(context.fs_group))
    yield from _validate_user_and_group(path, context)
    for i, group in enumerate(context.supplemental_groups):
        yield from make_errors(f"{path}.supplementalGroups[{i}]", group, names.user_or_group_id(group))
    if spec.share_process_namespace and spec.host_pid:
        sentence = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", value=True, detail=sentence)
    yield from _validate_sysctls(f"{path}.sysctls", context.sysctls, spec)
    yield from _validate_choice(
        f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("Always", "OnRootMismatch")
    )
    yield from _validate_seccomp(f"{path}.seccompProfile", context.seccomp_profile)
    yield from _validate_app_armor(f"{path}.appArmorProfile", context.app_armor_profile)
    yield from _validate_choice(
        f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy, ("Merge", "Strict")
    )
    yield from _validate_choice(
        f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, ("MountOption", "Recursive")
    )


def validate_operating_system(
    path: str, os: str | None, context: SecurityContext | PodSecurityContext | None
) -> Errors:
    """Check that no field belongs to another operating system than the pod's."""
    if context is None:
        return
    if os == "linux" and context.windows_options is not None:
        yield forbidden(f"{path}.windowsOptions", "windows options cannot be set for a linux pod")
    if os == "windows":
        for field, name in _NOT_ON_WINDOWS.items():
            if getattr(context, field, None) not in (None, ()):
                yield forbidden(f"{path}.{name}", "cannot be set for a windows pod")


def _validate_user_and_group(path: str, context: SecurityContext | PodSecurityContext) -> Errors:
    if context.run_as_user is not None:
        yield from make_errors(f"{path}.runAsUser", context.run_as_user, names.user_or_group_id(context.run_as_user))
    if context.run_as_group is not None:
        yield from make_errors(f"{path}.runAsGroup", context.run_as_group, names.user_or_group_id(context.run_as_group))


def _validate_choice(path: str, value: str | None, words: tuple[str, ...]) -> Errors:
    if value is not None and value not in words:
        yield unsupported(path, value, words)


def _validate_seccomp(path: str, profile: SeccompProfile | None) -> Errors:
    if profile is None:
        return
    if not profile.type:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif profile.type not in _PROFILE_TYPES:
        yield unsupported(f"{path}.type", profile.type, _PROFILE_TYPES)
    if profile.type != "Localhost":
        if profile.localhost_profile is not None:
            yield invalid(f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost")
    elif profile.localhost_profile is None:
        yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    else:
        yield from paths.validate_relative_path(f"{path}.localhostProfile", profile.localhost_profile)


def _validate_app_armor(path: str, profile: AppArmorProfile | None) -> Errors:
    if profile is None:
        return
    local = profile.localhost_profile
    if not profile.type:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif profile.type not in _PROFILE_TYPES:
        yield unsupported(f"{path}.type", profile.type, _PROFILE_TYPES)
    elif profile.type != "Localhost":
        if local is not None:
            yield invalid(f"{path}.localhostProfile", local, "can only be set when AppArmor type is Localhost")
    elif not local:
        yield required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost")
    else:
        if local.strip() != local:
            yield invalid(f"{path}.localhostProfile", local, "must not be padded with whitespace")
        if len(local.encode()) > _MAX_PROFILE_PATH:
            yield too_long(f"{path}.localhostProfile", _MAX_PROFILE_PATH)


def _validate_sysctls(path: str, sysctls: tuple[Sysctl, ...], spec: PodSpec) -> Errors:
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        place = f"{path}[{i}].name"
        if not sysctl.name:
            yield required(place)
        elif len(sysctl.name) > _MAX_SYSCTL or not _sysctl.fullmatch(sysctl.name):
            sentence = f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL}$"
            yield invalid(place, sysctl.name, sentence)
        elif sysctl.name in seen:
            yield duplicate(place, sysctl.name)
        seen.add(sysctl.name)
        name = sysctl.name.replace("/", ".")
        if spec.host_network and name.startswith("net."):
            yield invalid(place, sysctl.name, "may not be specified when 'hostNetwork' is true")
        if spec.host_ipc and name.startswith(("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")):
            yield invalid(place, sysctl.name, "may not be specified when 'hostIPC' is true")
