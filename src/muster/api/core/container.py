# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Containers in a pod, with their environment, resources, probes, hooks and rights."""

from muster.api.core.references import LocalObjectReference
from muster.api.core.security import SecurityContext
from muster.api.markers import Int32, IntOrString, Required
from muster.api.meta import Struct
from muster.api.values.quantity import Quantity, ResourceList


class ObjectFieldSelector(Struct):
    """A selector of a field of the pod itself."""

    api_version: str = ""
    field_path: Required[str] = ""


class ResourceFieldSelector(Struct):
    """A selector of a request or limit of a container."""

    container_name: str = ""
    resource: Required[str] = ""
    divisor: Quantity | None = None


class ConfigMapKeySelector(Struct):
    """A selector of a key of a ConfigMap."""

    name: str = ""
    key: Required[str] = ""
    optional: bool | None = None


class SecretKeySelector(Struct):
    """A selector of a key of a Secret."""

    name: str = ""
    key: Required[str] = ""
    optional: bool | None = None


class FileKeySelector(Struct):
    """A selector of a key of an env file in a volume."""

    volume_name: Required[str] = ""
    path: Required[str] = ""
    key: Required[str] = ""
    optional: bool | None = None


class EnvVarSource(Struct):
    """The source of the value of an environment variable. Exactly one field is set."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Struct):
    """One environment variable."""

    name: Required[str] = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(LocalObjectReference):
    """All keys of a ConfigMap."""

    optional: bool | None = None


class SecretEnvSource(LocalObjectReference):
    """All keys of a Secret."""

    optional: bool | None = None


class EnvFromSource(Struct):
    """Environment variables from all keys of an object. `env` overrides them, and later ones override earlier ones."""

    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class ContainerPort(Struct):
    """A port on which a container listens. A port that is not listed is open too."""

    name: str = ""
    host_port: Int32 = 0
    container_port: Required[Int32] = 0
    protocol: str = ""
    host_ip: str = ""


class ResourceClaim(Struct):
    """A claim of the pod that a container uses."""

    name: Required[str] = ""
    request: str = ""


class ResourceRequirements(Struct):
    """The requests and limits of a container."""

    limits: ResourceList = {}
    requests: ResourceList = {}
    claims: tuple[ResourceClaim, ...] = ()


class ContainerResizePolicy(Struct):
    """The policy for a running container whose resources change."""

    resource_name: Required[str] = ""
    restart_policy: Required[str] = ""


class ContainerRestartRuleOnExitCodes(Struct):
    """A condition on the exit code."""

    operator: Required[str] = ""
    values: tuple[Int32, ...] = ()


class ContainerRestartRule(Struct):
    """A rule for an exit that meets a condition, which overrides the restart policy."""

    action: Required[str] = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class VolumeMount(Struct):
    """The path at which a container mounts a volume."""

    name: Required[str] = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    mount_path: Required[str] = ""
    sub_path: str = ""
    mount_propagation: str | None = None
    sub_path_expr: str = ""


class VolumeDevice(Struct):
    """The path at which a container sees a raw block volume."""

    name: Required[str] = ""
    device_path: Required[str] = ""


class ExecAction(Struct):
    """An action that runs a command in the container. Exit code 0 is success."""

    command: tuple[str, ...] = ()


class HTTPHeader(Struct):
    """A header of a request."""

    name: Required[str] = ""
    value: Required[str] = ""


class HTTPGetAction(Struct):
    """An action that sends an HTTP request. A status from 200 to 399 is success."""

    path: str = ""
    port: Required[IntOrString] = 0
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Struct):
    """An action that opens a TCP connection."""

    port: Required[IntOrString] = 0
    host: str = ""


class GRPCAction(Struct):
    """An action that calls the gRPC health service."""

    port: Required[Int32] = 0
    service: str | None = None


class SleepAction(Struct):
    """An action that waits for a number of seconds."""

    seconds: Required[int] = 0


class Probe(Struct):
    """A periodic check of a container. Exactly one action is set."""

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
    """The action of a hook. Exactly one field is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Struct):
    """The lifecycle hooks of a container."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Container(Struct):
    """One container of a pod."""

    name: Required[str] = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(Container):
    """A container added to a running pod for debugging, which is never restarted."""

    target_container_name: str = ""
