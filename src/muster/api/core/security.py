"""The security settings of containers: users, groups, capabilities, profiles."""

from muster.api.markers import Required
from muster.api.meta import Struct


class Capabilities(Struct):
    """Kernel capabilities, without the prefix CAP_."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(Struct):
    """An SELinux label."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class WindowsSecurityContextOptions(Struct):
    """The security settings for Windows only."""

    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: bool | None = None


class SeccompProfile(Struct):
    """A filter of system calls."""

    type: Required[str] = ""
    localhost_profile: str | None = None


class AppArmorProfile(Struct):
    """An AppArmor profile."""

    type: Required[str] = ""
    localhost_profile: str | None = None


class SecurityContext(Struct):
    """The security settings of a container, which override those of the pod."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
