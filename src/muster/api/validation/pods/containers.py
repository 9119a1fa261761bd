"""The rules of all containers, and further rules of init containers and ephemeral containers."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from muster.api.core import (
    Container,
    ContainerPort,
    ContainerResizePolicy,
    ContainerRestartRule,
    EphemeralContainer,
    Volume,
    VolumeDevice,
    VolumeMount,
)
from muster.api.pods import is_sidecar
from muster.api.validation import names, paths
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    not_found,
    required,
    too_many,
    unsupported,
)
from muster.api.validation.pods.environment import validate_environment, validate_environment_from
from muster.api.validation.pods.handlers import validate_lifecycle, validate_liveness_or_startup, validate_readiness
from muster.api.validation.pods.security import validate_container_context
from muster.api.validation.pods.volumes import validate_pull_policy
from muster.api.validation.resources import validate_container_resources

PROTOCOLS = ("SCTP", "TCP", "UDP")

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_MOUNT_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_MAX_RESTART_RULES = 20
_MAX_EXIT_CODES = 255
_NOT_FOR_EPHEMERAL = {
    "ports": "ports",
    "resources": "resources",
    "resize_policy": "resizePolicy",
    "restart_policy": "restartPolicy",
    "restart_policy_rules": "restartPolicyRules",
    "liveness_probe": "livenessProbe",
    "readiness_probe": "readinessProbe",
    "startup_probe": "startupProbe",
    "lifecycle": "lifecycle",
}


class PodFacts(Struct, frozen=True):
    """The fields of a pod on which the validity of its containers depends.

    claims: the names in `spec.resourceClaims`.
    """

    volumes: Mapping[str, Volume]
    claims: Collection[str]
    grace_seconds: int | None
    restart_policy: str
    os: str | None
    host_users: bool


def validate_containers(path: str, containers: tuple[Container, ...], pod: PodFacts) -> Errors:
    """Yield the errors in the main containers."""
    if not containers:
        yield required(path)
    seen: set[str] = set()
    for i, container in enumerate(containers):
        place = f"{path}[{i}]"
        yield from _validate_common_fields(place, container, pod)
        if container.name in seen:
            yield duplicate(f"{place}.name", container.name)
        seen.add(container.name)
        yield from _validate_hooks_and_probes(place, container, pod)
        yield from _validate_restart_policy(place, container)
    yield from _validate_host_ports(path, containers)


def validate_init_containers(
    path: str, containers: tuple[Container, ...], main: tuple[Container, ...], pod: PodFacts
) -> Errors:
    """Yield the errors in the init containers.

    main: the main containers of the pod.
    """
    seen = {container.name for container in main}
    for i, container in enumerate(containers):
        place = f"{path}[{i}]"
        yield from _validate_common_fields(place, container, pod)
        yield from _validate_restart_policy(place, container)
        if container.name in seen:
            yield duplicate(f"{place}.name", container.name)
        elif container.name:
            seen.add(container.name)
        yield from _validate_host_ports(path, (container,))
        if is_sidecar(container):
            yield from _validate_hooks_and_probes(place, container, pod)
            continue
        for field, value in (
            ("lifecycle", container.lifecycle),
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
        ):
            if value is not None:
                sentence = "may not be set for init containers without restartPolicy=Always"
                yield forbidden(f"{place}.{field}", sentence)
        for j, policy in enumerate(container.resize_policy):
            if policy.restart_policy == "RestartContainer":
                sentence = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                yield invalid(f"{place}.resizePolicy[{j}].restartPolicy", policy.restart_policy, sentence)


def validate_ephemeral_containers(
    path: str, containers: tuple[EphemeralContainer, ...], others: tuple[Container, ...], pod: PodFacts
) -> Errors:
    """Yield the errors in the ephemeral containers.

    others: the other containers of the pod.
    """
    own = {container.name for container in others}
    seen = set(own)
    for i, container in enumerate(containers):
        place = f"{path}[{i}]"
        yield from _validate_common_fields(place, container, pod)
        yield from validate_pod_only_fields(place, container)
        if container.name in seen:
            yield duplicate(f"{place}.name", container.name)
        seen.add(container.name)
        if container.target_container_name and container.target_container_name not in own:
            yield not_found(f"{place}.targetContainerName", container.target_container_name)
        for field, name in _NOT_FOR_EPHEMERAL.items():
            if getattr(container, field) != getattr(_NO_CONTAINER, field):
                yield forbidden(f"{place}.{name}", "cannot be set for an Ephemeral Container")
        for j, mount in enumerate(container.volume_mounts):
            for name, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
                if value:
                    place_of_mount = f"{place}.volumeMounts[{j}].{name}"
                    yield forbidden(place_of_mount, "cannot be set for an Ephemeral Container")


_NO_CONTAINER = EphemeralContainer()


def validate_pod_only_fields(path: str, container: Container) -> Errors:
    """Yield the errors that are checked only in a pod, not in a pod template."""
    if container.image != container.image.strip():
        yield invalid(f"{path}.image", container.image, "must not have leading or trailing whitespace")


def _validate_common_fields(path: str, container: Container, pod: PodFacts) -> Errors:
    if not container.name:
        yield required(f"{path}.name")
    else:
        yield from make_errors(f"{path}.name", container.name, names.dns_label(container.name))
    if not container.image:
        yield required(f"{path}.image")
    policy = container.termination_message_policy
    if not policy:
        yield required(f"{path}.terminationMessagePolicy")
    elif policy not in _MESSAGE_POLICIES:
        yield unsupported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _validate_ports(f"{path}.ports", container.ports)
    yield from validate_environment(f"{path}.env", container.env)
    yield from validate_environment_from(f"{path}.envFrom", container.env_from)
    yield from _validate_mounts(f"{path}.volumeMounts", container, pod.volumes)
    yield from _validate_devices(f"{path}.volumeDevices", container, pod.volumes)
    yield from validate_pull_policy(f"{path}.imagePullPolicy", container.image_pull_policy)
    yield from validate_container_resources(f"{path}.resources", container.resources, pod.claims)
    yield from _validate_resize_policy(f"{path}.resizePolicy", container.resize_policy, pod.restart_policy)
    yield from validate_container_context(
        f"{path}.securityContext", container.security_context, host_users=pod.host_users
    )


def _validate_hooks_and_probes(path: str, container: Container, pod: PodFacts) -> Errors:
    if container.lifecycle is not None:
        yield from validate_lifecycle(f"{path}.lifecycle", container.lifecycle, pod.grace_seconds, pod.os)
    yield from validate_liveness_or_startup(f"{path}.livenessProbe", container.liveness_probe)
    yield from validate_readiness(f"{path}.readinessProbe", container.readiness_probe)
    yield from validate_liveness_or_startup(f"{path}.startupProbe", container.startup_probe)


def _validate_ports(path: str, ports: tuple[ContainerPort, ...]) -> Errors:
    seen: set[str] = set()
    for i, port in enumerate(ports):
        place = f"{path}[{i}]"
        if port.name:
            messages = names.port_name(port.name)
            yield from make_errors(f"{place}.name", port.name, messages)
            if not messages and port.name in seen:
                yield duplicate(f"{place}.name", port.name)
            seen.add(port.name)
        if port.container_port == 0:
            yield required(f"{place}.containerPort")
        else:
            yield from make_errors(
                f"{place}.containerPort", port.container_port, names.port_number(port.container_port)
            )
        if port.host_port != 0:
            yield from make_errors(f"{place}.hostPort", port.host_port, names.port_number(port.host_port))
        if not port.protocol:
            yield required(f"{place}.protocol")
        elif port.protocol not in PROTOCOLS:
            yield unsupported(f"{place}.protocol", port.protocol, PROTOCOLS)


def _validate_host_ports(path: str, containers: tuple[Container, ...]) -> Errors:
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.ports):
            if not port.host_port:
                continue
            key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if key in seen:
                yield duplicate(f"{path}[{i}].ports[{j}].hostPort", key)
            seen.add(key)


def _validate_mounts(path: str, container: Container, volumes: Mapping[str, Volume]) -> Errors:
    device_names = {device.name for device in container.volume_devices}
    device_paths = {device.device_path for device in container.volume_devices}
    seen: set[str] = set()
    for i, mount in enumerate(container.volume_mounts):
        place = f"{path}[{i}]"
        if not mount.name:
            yield required(f"{place}.name")
        if mount.name not in volumes:
            yield not_found(f"{place}.name", mount.name)
        if not mount.mount_path:
            yield required(f"{place}.mountPath")
        if mount.mount_path in seen:
            yield invalid(f"{place}.mountPath", mount.mount_path, "must be unique")
        seen.add(mount.mount_path)
        if mount.name in device_names:
            yield invalid(f"{place}.name", mount.name, "must not already exist in volumeDevices")
        if mount.mount_path in device_paths:
            sentence = "must not already exist as a path in volumeDevices"
            yield invalid(f"{place}.mountPath", mount.mount_path, sentence)
        yield from _validate_mount_options(path, place, mount, container)


def _validate_mount_options(path: str, place: str, mount: VolumeMount, container: Container) -> Errors:
    if mount.sub_path:
        yield from paths.validate_relative_path(f"{path}.subPath", mount.sub_path)
    if mount.sub_path_expr:
        if mount.sub_path:
            sentence = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{place}.subPathExpr", mount.sub_path_expr, sentence)
        yield from paths.validate_relative_path(f"{path}.subPathExpr", mount.sub_path_expr)
    propagation = mount.mount_propagation
    if propagation is not None and propagation not in _MOUNT_PROPAGATIONS:
        yield unsupported(f"{path}.mountPropagation", propagation, _MOUNT_PROPAGATIONS)
    privileged = container.security_context is not None and container.security_context.privileged
    if propagation == "Bidirectional" and not privileged:
        sentence = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", sentence)
    recursive = mount.recursive_read_only
    if recursive in ("Enabled", "IfPossible"):
        if not mount.read_only:
            yield forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            sentence = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(f"{path}.recursiveReadOnly", sentence)
    elif recursive not in (None, "Disabled"):
        yield unsupported(f"{path}.recursiveReadOnly", recursive, _RECURSIVE_READ_ONLY)


def _validate_devices(path: str, container: Container, volumes: Mapping[str, Volume]) -> Errors:
    mount_names = {mount.name for mount in container.volume_mounts}
    mount_paths = {mount.mount_path for mount in container.volume_mounts}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for i, device in enumerate(container.volume_devices):
        place = f"{path}[{i}]"
        yield from _validate_device(place, device, volumes)
        if device.name in seen_names:
            yield invalid(f"{place}.name", device.name, "must be unique")
        if device.device_path in seen_paths:
            yield invalid(f"{place}.devicePath", device.device_path, "must be unique")
        if device.name in mount_names:
            yield invalid(f"{place}.name", device.name, "must not already exist in volumeMounts")
        if device.device_path in mount_paths:
            sentence = "must not already exist as a path in volumeMounts"
            yield invalid(f"{place}.devicePath", device.device_path, sentence)
        seen_names.add(device.name)
        seen_paths.add(device.device_path)


def _validate_device(path: str, device: VolumeDevice, volumes: Mapping[str, Volume]) -> Errors:
    volume = volumes.get(device.name)
    if not device.name:
        yield required(f"{path}.name")
    if volume is None:
        yield not_found(f"{path}.name", device.name)
    elif volume.persistent_volume_claim is None and volume.ephemeral is None:
        sentence = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield invalid(f"{path}.name", device.name, sentence)
    if not device.device_path:
        yield required(f"{path}.devicePath")
    elif ".." in device.device_path.split("/"):
        yield invalid(f"{path}.devicePath", device.device_path, "can not contain backsteps ('..')")


def _validate_resize_policy(path: str, policies: tuple[ContainerResizePolicy, ...], restart_policy: str) -> Errors:
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        if policy.resource_name in seen:
            yield duplicate(f"{path}[{i}]", policy.resource_name)
        seen.add(policy.resource_name)
        for word, words in (
            (policy.resource_name, ("cpu", "memory")),
            (policy.restart_policy, ("NotRequired", "RestartContainer")),
        ):
            if not word:
                yield required(path)
            elif word not in words:
                yield unsupported(path, word, words)
        if restart_policy == "Never" and policy.restart_policy != "NotRequired":
            yield invalid(path, policy.restart_policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _validate_restart_policy(path: str, container: Container) -> Errors:
    policy, rules = container.restart_policy, container.restart_policy_rules
    if policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _RESTART_POLICIES:
        yield unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > _MAX_RESTART_RULES:
        yield too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RESTART_RULES)
    for i, rule in enumerate(rules):
        yield from _validate_restart_rule(f"{path}.restartPolicyRules[{i}]", rule)


def _validate_restart_rule(path: str, rule: ContainerRestartRule) -> Errors:
    if rule.action not in _RESTART_ACTIONS:
        yield unsupported(f"{path}.action", rule.action, _RESTART_ACTIONS)
    codes = rule.exit_codes
    if codes is None:
        yield required(f"{path}.exitCodes", "must be specified")
        return
    if codes.operator not in ("In", "NotIn"):
        yield unsupported(f"{path}.exitCodes.operator", codes.operator, ("In", "NotIn"))
    if len(codes.values) > _MAX_EXIT_CODES:
        yield too_many(f"{path}.exitCodes.values", len(codes.values), _MAX_EXIT_CODES)
