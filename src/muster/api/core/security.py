"""What processes in containers may do: users, groups, capabilities, profiles."""

from typing import Annotated

from muster.api.markers import Required, Strings, one_of
from muster.api.meta import Struct


class Capabilities(Struct):
    """Capabilities of the kernel, without CAP_.

    add: given besides the default.
    drop: taken away.
    """

    add: Strings = ()
    drop: Strings = ()


class SELinuxOptions(Struct):
    """An SELinux label.

    user: its user.
    role: its role.
    type: its type.
    level: its level.
    """

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class WindowsSecurityContextOptions(Struct):
    """What concerns Windows only.

    gmsa_credential_spec_name: name of the GMSA credential spec.
    gmsa_credential_spec: the credential spec itself.
    run_as_user_name: user of the entry point.
    host_process: whether the container is a host process.
    """

    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: bool | None = None


class SeccompProfile(Struct):
    """A filter of system calls.

    type: Localhost, RuntimeDefault or Unconfined.
    localhost_profile: file on the node, for Localhost.
    """

    type: Annotated[Required[str], one_of("Localhost", "RuntimeDefault", "Unconfined")] = ""
    localhost_profile: str | None = None


class AppArmorProfile(Struct):
    """An AppArmor profile.

    type: Localhost, RuntimeDefault or Unconfined.
    localhost_profile: profile loaded on the node, for Localhost.
    """

    type: Annotated[Required[str], one_of("Localhost", "RuntimeDefault", "Unconfined")] = ""
    localhost_profile: str | None = None


class SecurityContext(Struct):
    """Rights of a container; what is set here wins over the pod's.

    capabilities: capabilities to add and drop.
    privileged: whether it has the rights of the node.
    se_linux_options: SELinux label.
    windows_options: what concerns Windows only.
    run_as_user: user id of the processes.
    run_as_group: group id of the processes.
    run_as_non_root: whether to refuse to run as user 0.
    read_only_root_filesystem: whether the root file system cannot be written.
    allow_privilege_escalation: whether a process may gain more rights than its parent.
    proc_mount: Default or Unmasked.
    seccomp_profile: filter of system calls.
    app_armor_profile: AppArmor profile.
    """

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
