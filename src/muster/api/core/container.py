# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""What runs in a pod: containers with their environment, resources, probes, hooks and rights."""

from typing import Annotated

from muster.api.core.references import LocalObjectReference
from muster.api.core.security import SecurityContext
from muster.api.markers import ATOMIC, SET, Default, Int32, IntOrString, Required, Strings, map_by, merged_by, one_of
from muster.api.meta import Struct
from muster.api.values.quantity import Quantity, ResourceList


class ObjectFieldSelector(Struct):
    """Selects a field of the pod itself.

    api_version: version in which the path is meant; v1 if empty.
    field_path: the field, such as metadata.name or metadata.labels['app'].
    """

    api_version: str = ""
    field_path: Required[str] = ""


class ResourceFieldSelector(Struct):
    """Selects a request or limit of a container.

    container_name: the container; in env, its own if empty; required for volumes.
    resource: limits.cpu, requests.memory and the like.
    divisor: unit of the output; 1 if absent.
    """

    container_name: str = ""
    resource: Required[str] = ""
    divisor: Quantity | None = None


class ConfigMapKeySelector(Struct):
    """Selects a key of a ConfigMap.

    name: name of the ConfigMap.
    key: the key.
    optional: whether the ConfigMap or the key may be missing.
    """

    name: str = ""
    key: Required[str] = ""
    optional: bool | None = None


class SecretKeySelector(Struct):
    """Selects a key of a Secret.

    name: name of the Secret.
    key: the key.
    optional: whether the Secret or the key may be missing.
    """

    name: str = ""
    key: Required[str] = ""
    optional: bool | None = None


class FileKeySelector(Struct):
    """Selects a key of an env file in a volume.

    volume_name: the emptyDir volume that has the file; the container need not mount it.
    path: path of the file within the volume.
    key: name of the variable in the file.
    optional: whether the file or the key may be missing.
    """

    volume_name: Required[str] = ""
    path: Required[str] = ""
    key: Required[str] = ""
    optional: bool | None = None


class EnvVarSource(Struct):
    """Where the value of an environment variable comes from; exactly one.

    field_ref: a field of the pod.
    resource_field_ref: a request or limit of a container.
    config_map_key_ref: a key of a ConfigMap.
    secret_key_ref: a key of a Secret.
    file_key_ref: a key of a file in a volume.
    """

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Struct):
    """One environment variable.

    name: its name.
    value: its value, in which $(NAME) stands for variables defined before it and $$ for a dollar.
    value_from: where the value comes from instead.
    """

    name: Required[str] = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(LocalObjectReference):
    """All keys of a ConfigMap.

    name: name of the ConfigMap.
    optional: whether it may be missing.
    """

    optional: bool | None = None


class SecretEnvSource(LocalObjectReference):
    """All keys of a Secret.

    name: name of the Secret.
    optional: whether it may be missing.
    """

    optional: bool | None = None


class EnvFromSource(Struct):
    """Environment variables from all keys of an object; `env` wins over them, and later ones over earlier.

    prefix: put before every key.
    config_map_ref: the ConfigMap.
    secret_ref: the Secret.
    """

    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class ContainerPort(Struct):
    """A port that a container listens on; it is open whether listed or not.

    name: name by which probes and services refer to it; unique in the pod.
    host_port: the same port of the node.
    container_port: the port, 1 to 65535.
    protocol: TCP, UDP or SCTP; TCP if empty.
    host_ip: address of the node to bind the host port to.
    """

    name: str = ""
    host_port: Int32 = 0
    container_port: Required[Int32] = 0
    protocol: Annotated[str, one_of("SCTP", "TCP", "UDP"), Default("TCP")] = ""
    host_ip: str = ""


class ResourceClaim(Struct):
    """A claim of the pod that a container uses.

    name: name of an entry of the pod's resourceClaims.
    request: one request of that claim; all if empty.
    """

    name: Required[str] = ""
    request: str = ""


class ResourceRequirements(Struct):
    """What a container needs, and the most it may use.

    limits: the most it may use.
    requests: what is set aside for it; the limits where absent.
    claims: claims of the pod that it uses.
    """

    limits: ResourceList = {}
    requests: ResourceList = {}
    claims: Annotated[tuple[ResourceClaim, ...], map_by("name")] = ()


class ContainerResizePolicy(Struct):
    """What happens to a running container when its resources change.

    resource_name: cpu or memory.
    restart_policy: NotRequired or RestartContainer.
    """

    resource_name: Required[str] = ""
    restart_policy: Required[str] = ""


class ContainerRestartRuleOnExitCodes(Struct):
    """A condition on the exit code.

    operator: In or NotIn.
    values: the codes.
    """

    operator: Required[str] = ""
    values: Annotated[tuple[Int32, ...], SET] = ()


class ContainerRestartRule(Struct):
    """What to do after an exit that meets a condition, whatever the restart policy says.

    action: Restart or RestartAllContainers.
    exit_codes: the condition.
    """

    action: Required[str] = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class VolumeMount(Struct):
    """Where a container sees a volume.

    name: name of the volume.
    read_only: whether writing is refused.
    recursive_read_only: Disabled, IfPossible or Enabled: whether that goes for mounts below it too.
    mount_path: path in the container; it has no colon.
    sub_path: path within the volume that is mounted instead of its root.
    mount_propagation: None, HostToContainer or Bidirectional.
    sub_path_expr: like subPath, with $(NAME) expanded from the environment.
    """

    name: Required[str] = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    mount_path: Required[str] = ""
    sub_path: str = ""
    mount_propagation: Annotated[str, one_of("Bidirectional", "HostToContainer", "None")] | None = None
    sub_path_expr: str = ""


class VolumeDevice(Struct):
    """Where a container sees a raw block volume.

    name: name of the volume, a persistentVolumeClaim.
    device_path: path in the container.
    """

    name: Required[str] = ""
    device_path: Required[str] = ""


class ExecAction(Struct):
    """Run a command in the container; exit code 0 is success.

    command: the command and its arguments, not run in a shell.
    """

    command: Strings = ()


class HTTPHeader(Struct):
    """A header of a request.

    name: its name.
    value: its value.
    """

    name: Required[str] = ""
    value: Required[str] = ""


class HTTPGetAction(Struct):
    """Ask over HTTP; a status from 200 to 399 is success.

    path: path of the URL; / if empty.
    port: number or name of the port.
    host: host to ask; the pod's address if empty.
    scheme: HTTP, the default, or HTTPS, without verification.
    http_headers: headers to send.
    """

    path: str = ""
    port: Required[IntOrString] = 0
    host: str = ""
    scheme: Annotated[str, one_of("HTTP", "HTTPS")] = ""
    http_headers: Annotated[tuple[HTTPHeader, ...], ATOMIC] = ()


class TCPSocketAction(Struct):
    """Open a TCP connection.

    port: number or name of the port.
    host: host to connect to; the pod's address if empty.
    """

    port: Required[IntOrString] = 0
    host: str = ""


class GRPCAction(Struct):
    """Ask the gRPC health service.

    port: number of the port.
    service: name of the service to ask about.
    """

    port: Required[Int32] = 0
    service: str | None = None


class SleepAction(Struct):
    """Wait.

    seconds: for how long.
    """

    seconds: Required[int] = 0


class Probe(Struct):
    """A check that is made again and again; exactly one way of checking.

    exec: run a command.
    http_get: ask over HTTP.
    tcp_socket: open a connection.
    grpc: ask the gRPC health service.
    initial_delay_seconds: from the container's start to the first check.
    timeout_seconds: after this a check has failed; 1 if 0.
    period_seconds: between checks; 10 if 0.
    success_threshold: successes in a row to count as passing again; 1 if 0.
    failure_threshold: failures in a row to count as failing; 3 if 0.
    termination_grace_period_seconds: overrides the pod's, when the failure ends the container.
    """

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 = 0
    timeout_seconds: Int32 = 0
    period_seconds: Int32 = 0
    success_threshold: Int32 = 0
    failure_threshold: Int32 = 0
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(Struct):
    """What a hook does; exactly one.

    exec: run a command.
    http_get: ask over HTTP.
    tcp_socket: not supported; kept for old manifests.
    sleep: wait.
    """

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Struct):
    """Hooks in a container's life.

    post_start: right after the start; if it fails the container is killed.
    pre_stop: before the container is asked to end, within the grace period.
    stop_signal: the signal that asks the container to end; SIGTERM if absent.
    """

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Container(Struct):
    """One container of a pod.

    name: unique among the pod's containers; a DNS label.
    image: the image; a process node does not pull it.
    command: the program and its first arguments; $(NAME) is expanded from the environment.
    args: further arguments; $(NAME) is expanded from the environment.
    working_dir: where the program starts.
    ports: ports that it listens on.
    env_from: environment variables from all keys of ConfigMaps and Secrets.
    env: environment variables, in order.
    resources: what it needs and the most it may use.
    resize_policy: what a change of its resources does to it.
    restart_policy: Always makes an init container a sidecar; Never and OnFailure override the pod's policy.
    restart_policy_rules: exits that are handled in another way than the restart policy says.
    volume_mounts: where it sees the pod's volumes.
    volume_devices: where it sees raw block volumes.
    liveness_probe: the container is restarted when this fails.
    readiness_probe: the container is not ready while this fails.
    startup_probe: until this succeeds the other probes wait; the container is restarted when it fails.
    lifecycle: hooks.
    termination_message_path: file whose content becomes the message of the terminated state; /dev/termination-log.
    termination_message_policy: File, or FallbackToLogsOnError: the end of the log if the file is empty.
    image_pull_policy: Always, IfNotPresent or Never.
    security_context: its rights.
    stdin: whether it has an open standard input.
    stdin_once: whether that is closed after the first client leaves.
    tty: whether it has a terminal.
    """

    name: Required[str] = ""
    image: str = ""
    command: Strings = ()
    args: Strings = ()
    working_dir: str = ""
    ports: Annotated[tuple[ContainerPort, ...], merged_by("containerPort", "protocol")] = ()
    env_from: Annotated[tuple[EnvFromSource, ...], ATOMIC] = ()
    env: Annotated[tuple[EnvVar, ...], merged_by("name")] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: Annotated[tuple[ContainerResizePolicy, ...], ATOMIC] = ()
    restart_policy: str | None = None
    restart_policy_rules: Annotated[tuple[ContainerRestartRule, ...], ATOMIC] = ()
    volume_mounts: Annotated[tuple[VolumeMount, ...], merged_by("mountPath")] = ()
    volume_devices: Annotated[tuple[VolumeDevice, ...], merged_by("devicePath")] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: Annotated[str, one_of("FallbackToLogsOnError", "File")] = ""
    image_pull_policy: Annotated[str, one_of("Always", "IfNotPresent", "Never")] = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(Container):
    """A container put into a running pod to look at it; it is never restarted.

    name: unique among all containers of the pod.
    target_container_name: the container whose processes it sees.
    """

    target_container_name: str = ""
