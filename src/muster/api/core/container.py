# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Containers in a pod, with their environment, resources, probes, hooks and rights."""

from muster.api.core.references import LocalObjectReference
from muster.api.core.security import SecurityContext
from muster.api.markers import Int32, IntOrString, Required
from muster.api.meta import Struct
from muster.api.values.quantity import Quantity, ResourceList


class ObjectFieldSelector(Struct):
    """Selects a field of the pod itself."""

    api_version: str = ""
    field_path: Required[str] = ""


class ResourceFieldSelector(Struct):
    """Selects a request or limit of a container."""

    container_name: str = ""
    resource: Required[str] = ""
    divisor: Quantity | None = None


class ConfigMapKeySelector(Struct):
    """Selects a key of a ConfigMap."""

    name: str = ""
    key: Required[str] = ""
    optional: bool | None = None


class SecretKeySelector(Struct):
    """Selects a key of a Secret."""

    name: str = ""
    key: Required[str] = ""
    optional: bool | None = None


class FileKeySelector(Struct):
    """Selects a key of an env file in a volume."""

    volume_name: Required[str] = ""
    path: Required[str] = ""
    key: Required[str] = ""
    optional: bool | None = None


class EnvVarSource(Struct):
    """Where the value of an environment variable comes from; exactly one."""

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
    """Environment variables from all keys of an object; `env` wins over them, and later ones over earlier."""

    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class ContainerPort(Struct):
    """A port that a container listens on; it is open whether listed or not."""

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
    """What a container needs, and the most it may use."""

    limits: ResourceList = {}
    requests: ResourceList = {}
    claims: tuple[ResourceClaim, ...] = ()


class ContainerResizePolicy(Struct):
    """What happens to a running container when its resources change."""

    resource_name: Required[str] = ""
    restart_policy: Required[str] = ""


class ContainerRestartRuleOnExitCodes(Struct):
    """A condition on the exit code."""

    operator: Required[str] = ""
    values: tuple[Int32, ...] = ()


class ContainerRestartRule(Struct):
    """What to do after an exit that meets a condition, whatever the restart policy says."""

    action: Required[str] = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class VolumeMount(Struct):
    """Where a container sees a volume."""

    name: Required[str] = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    mount_path: Required[str] = ""
    sub_path: str = ""
    mount_propagation: str | None = None
    sub_path_expr: str = ""


class VolumeDevice(Struct):
    """Where a container sees a raw block volume."""

    name: Required[str] = ""
    device_path: Required[str] = ""


class ExecAction(Struct):
    """Run a command in the container; exit code 0 is success."""

    command: tuple[str, ...] = ()


class HTTPHeader(Struct):
    """A header of a request."""

    name: Required[str] = ""
    value: Required[str] = ""


class HTTPGetAction(Struct):
    """Ask over HTTP; a status from 200 to 399 is success."""

    path: str = ""
    port: Required[IntOrString] = 0
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Struct):
    """Open a TCP connection."""

    port: Required[IntOrString] = 0
    host: str = ""


class GRPCAction(Struct):
    """Ask the gRPC health service."""

    port: Required[Int32] = 0
    service: str | None = None


class SleepAction(Struct):
    """Wait."""

    seconds: Required[int] = 0


class Probe(Struct):
    """A check that is made again and again; exactly one way of checking."""

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
    """What a hook does; exactly one."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Struct):
    """Hooks in a container's life."""

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
    """A container put into a running pod to look at it; it is never restarted."""

    target_container_name: str = ""
