"""The rules of a pod's spec, for pods and templates."""

from collections.abc import Iterator

from muster.api.core import (
    Container,
    EphemeralContainer,
    HostAlias,
    PodDNSConfig,
    PodResourceClaim,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
)
from muster.api.pods import pod_requests
from muster.api.validation import metadata, names
from muster.api.validation.addresses import validate_ip_address
from muster.api.validation.fields import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    make_errors,
    not_found,
    required,
    too_long,
    unsupported,
)
from muster.api.validation.pods import placement, security
from muster.api.validation.pods.containers import (
    PodFacts,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from muster.api.validation.pods.volumes import sort_out_volumes
from muster.api.validation.resources import validate_container_resources, validate_pod_resources
from muster.api.values.quantity import QuantityError, format_amount, format_canonical, parse_amount

MAX_INT32 = 2**31 - 1

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_MAX_HOSTNAME = 64
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def validate_pod_template(path: str, template: PodTemplateSpec) -> Errors:
    """Yield the errors in the template of a controller."""
    yield from metadata.validate_labels(f"{path}.labels", template.metadata.labels)
    yield from metadata.validate_annotations(f"{path}.annotations", template.metadata.annotations)
    yield from validate_pod_annotations(f"{path}.annotations", template.metadata.annotations)
    yield from validate_pod_spec(f"{path}.spec", template.spec)
    if template.spec.ephemeral_containers:
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def validate_pod_annotations(path: str, annotations: dict[str, str]) -> Errors:
    """Check the annotation of a pod's deletion cost, which must be a 32-bit integer."""
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        yield invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")


def validate_pod_spec(path: str, spec: PodSpec, pod_name: str = "", *, is_pod: bool = False) -> Errors:
    """Yield the errors in a spec with its defaults.

    pod_name, is_pod: set for the spec of a pod, not of a template.
    """
    if spec.termination_grace_period_seconds is None:
        yield required(f"{path}.terminationGracePeriodSeconds")
    good_volumes, errors = sort_out_volumes(f"{path}.volumes", spec.volumes, pod_name)
    yield from errors
    facts = PodFacts(
        volumes=good_volumes,
        claims={claim.name for claim in spec.resource_claims if claim.name},
        grace_seconds=spec.termination_grace_period_seconds,
        restart_policy=spec.restart_policy,
        os=spec.os.name if spec.os is not None else None,
        host_users=spec.host_users is not False,
    )
    yield from _validate_resource_claims(f"{path}.resourceClaims", spec.resource_claims)
    yield from validate_containers(f"{path}.containers", spec.containers, facts)
    yield from validate_init_containers(f"{path}.initContainers", spec.init_containers, spec.containers, facts)
    others = (*spec.containers, *spec.init_containers)
    yield from validate_ephemeral_containers(f"{path}.ephemeralContainers", spec.ephemeral_containers, others, facts)
    if spec.resources is not None:
        yield from _validate_pod_resources(f"{path}.resources", spec, spec.resources, facts)
    yield from _validate_host_network_ports(f"{path}.containers", spec, is_pod=is_pod)
    yield from _validate_choice(f"{path}.restartPolicy", spec.restart_policy, _RESTART_POLICIES)
    yield from _validate_choice(f"{path}.dnsPolicy", spec.dns_policy, _DNS_POLICIES)
    yield from metadata.validate_labels(f"{path}.nodeSelector", spec.node_selector)
    yield from security.validate_pod_context(f"{path}.securityContext", spec)
    yield from placement.validate_affinity(f"{path}.affinity", spec.affinity)
    yield from _validate_dns_config(f"{path}.dnsConfig", spec.dns_config, spec.dns_policy)
    for i, gate in enumerate(spec.readiness_gates):
        messages = names.label_key(gate.condition_type)
        yield from make_errors(f"{path}.readinessGates[{i}].conditionType", gate.condition_type, messages)
    yield from placement.validate_scheduling_gates(f"{path}.schedulingGates", spec.scheduling_gates)
    yield from placement.validate_spread_constraints(
        f"{path}.topologySpreadConstraints", spec.topology_spread_constraints
    )
    yield from _validate_host_users(path, spec)
    yield from _validate_names(path, spec)
    yield from placement.validate_tolerations(f"{path}.tolerations", spec.tolerations)
    yield from _validate_host_aliases(f"{path}.hostAliases", spec.host_aliases)
    yield from _validate_classes(path, spec)
    if spec.overhead:
        yield from validate_container_resources(f"{path}.overhead", ResourceRequirements(limits=spec.overhead), ())
    yield from _validate_operating_system(path, spec)
    yield from _validate_scheduling_group(path, spec)
    yield from _validate_env_files(path, spec)


def containers_with_path(path: str, spec: PodSpec) -> Iterator[tuple[str, Container | EphemeralContainer]]:
    """Yield all containers with their paths."""
    for field, given in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for i, container in enumerate(given):
            yield f"{path}.{field}[{i}]", container


def _validate_choice(path: str, value: str, words: tuple[str, ...]) -> Errors:
    if not value:
        yield required(path)
    elif value not in words:
        yield unsupported(path, value, words)


def _is_int32(text: str) -> bool:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or (digits[0] == "0" and text != "0"):
        return False
    return -(2**31) <= int(text) <= MAX_INT32


def _validate_resource_claims(path: str, claims: tuple[PodResourceClaim, ...]) -> Errors:
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        place = f"{path}[{i}]"
        if not claim.name:
            yield required(f"{place}.name")
        elif claim.name in seen:
            yield duplicate(f"{place}.name", claim.name)
        else:
            yield from make_errors(f"{place}.name", claim.name, names.dns_label(claim.name))
            seen.add(claim.name)
        own, template = claim.resource_claim_name, claim.resource_claim_template_name
        if own is not None and template is not None:
            sentence = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(place, claim, sentence)
        if own is None and template is None:
            yield invalid(place, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for field, name in (("resourceClaimName", own), ("resourceClaimTemplateName", template)):
            if name is not None:
                yield from make_errors(f"{place}.{field}", name, names.dns_subdomain(name))


def _validate_pod_resources(path: str, spec: PodSpec, resources: ResourceRequirements, facts: PodFacts) -> Errors:
    if facts.os == "windows":
        yield forbidden(path, "may not be set for a windows pod")
        return
    if resources.claims:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from validate_pod_resources(path, resources, facts.claims)
    try:
        together = pod_requests(PodSpec(containers=spec.containers, init_containers=spec.init_containers))
        yield from _validate_consistency(path, spec, resources, together)
    except QuantityError:
        return  # the rule of quantities reports the error


def _validate_consistency(
    path: str, spec: PodSpec, resources: ResourceRequirements, together: dict[str, int]
) -> Errors:
    """Check that the pod requests at least as much as its containers, and that its limit is at least each of theirs."""
    for resource, number in together.items():
        asked = resources.requests.get(resource)
        if asked is not None and number > parse_amount(resource, asked):
            aggregate = format_amount(resource, number)
            sentence = f"must be greater than or equal to aggregate container requests of {aggregate}"
            yield invalid(f"{path}.requests[{resource}]", format_canonical(asked), sentence)
    for i, container in enumerate(spec.containers):
        for resource, quantity in container.resources.limits.items():
            most = resources.limits.get(resource)
            if most is not None and parse_amount(resource, quantity) > parse_amount(resource, most):
                place = f"{path}.containers[{i}][{resource}].limits"
                sentence = f"must be less than or equal to pod limits of {format_canonical(most)}"
                yield invalid(place, format_canonical(quantity), sentence)


def _validate_host_network_ports(path: str, spec: PodSpec, *, is_pod: bool) -> Errors:
    if not spec.host_network:
        return
    for i, container in enumerate(spec.containers):
        for j, port in enumerate(container.ports):
            if (is_pod or port.host_port) and port.host_port != port.container_port:
                sentence = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{path}[{i}].ports[{j}].hostPort", port.host_port, sentence)


def _validate_dns_config(path: str, config: PodDNSConfig | None, policy: str) -> Errors:
    if config is None:
        if policy == "None":
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    if policy == "None" and not config.nameservers:
        sentence = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(f"{path}.nameservers", sentence)
        return
    if len(config.nameservers) > _MAX_NAMESERVERS:
        sentence = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        yield invalid(f"{path}.nameservers", config.nameservers, sentence)
    for i, server in enumerate(config.nameservers):
        yield from validate_ip_address(f"{path}.nameservers[{i}]", server)
    if len(config.searches) > _MAX_SEARCHES:
        sentence = f"must not have more than {_MAX_SEARCHES} search paths"
        yield invalid(f"{path}.searches", config.searches, sentence)
    if len(" ".join(config.searches)) > _MAX_SEARCH_CHARACTERS:
        sentence = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield invalid(f"{path}.searches", config.searches, sentence)
    for i, search in enumerate(config.searches):
        if search != ".":
            domain = search.removesuffix(".")
            yield from make_errors(f"{path}.searches[{i}]", domain, names.dns_subdomain_with_underscore(domain))
    for i, option in enumerate(config.options):
        if not option.name:
            yield required(f"{path}.options[{i}]", "must not be empty")


def _validate_host_users(path: str, spec: PodSpec) -> Errors:
    if spec.host_users is not False:
        return
    sentence = "when `hostUsers` is false"
    for field, set_ in (
        ("hostNetwork", spec.host_network),
        ("HostPID", spec.host_pid),
        ("HostIPC", spec.host_ipc),
    ):
        if set_:
            yield forbidden(f"{path}.{field}", sentence)
    for place, container in containers_with_path(path, spec):
        if container.volume_devices:
            yield forbidden(f"{place}.volumeDevices", sentence)


def _validate_names(path: str, spec: PodSpec) -> Errors:
    override = spec.hostname_override
    if override is not None:
        for field, set_ in (("setHostnameAsFQDN", spec.set_hostname_as_fqdn), ("hostNetwork", spec.host_network)):
            if set_:
                yield forbidden(f"{path}.hostnameOverride", f"may not be specified when {field} is true")
        if len(override.encode()) > _MAX_HOSTNAME:
            yield too_long(f"{path}.hostnameOverride", _MAX_HOSTNAME)
        yield from make_errors(f"{path}.hostnameOverride", override, names.dns_subdomain(override))
    for field, value, rule in (
        ("serviceAccountName", spec.service_account_name, names.dns_subdomain),
        ("nodeName", spec.node_name, names.dns_subdomain),
    ):
        if value:
            yield from make_errors(f"{path}.{field}", value, rule(value))
    seconds = spec.active_deadline_seconds
    if seconds is not None:
        yield from make_errors(f"{path}.activeDeadlineSeconds", seconds, names.in_range(seconds, 1, MAX_INT32))
    for field, value in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if value:
            yield from make_errors(f"{path}.{field}", value, names.dns_label(value))


def _validate_host_aliases(path: str, aliases: tuple[HostAlias, ...]) -> Errors:
    for i, alias in enumerate(aliases):
        yield from validate_ip_address(f"{path}[{i}].ip", alias.ip)
        for j, name in enumerate(alias.hostnames):
            yield from make_errors(f"{path}[{i}].hostnames[{j}]", name, names.dns_subdomain(name))


def _validate_classes(path: str, spec: PodSpec) -> Errors:
    if spec.priority_class_name:
        messages = names.dns_subdomain(spec.priority_class_name)
        yield from make_errors(f"{path}.priorityClassName", spec.priority_class_name, messages)
    if spec.runtime_class_name is not None:
        messages = names.dns_subdomain(spec.runtime_class_name)
        yield from make_errors(f"{path}.runtimeClassName", spec.runtime_class_name, messages)
    if spec.preemption_policy is not None:
        yield from validate_preemption_policy(f"{path}.preemptionPolicy", spec.preemption_policy)


def validate_preemption_policy(path: str, policy: str) -> Errors:
    """Check the preemption policy."""
    yield from _validate_choice(path, policy, _PREEMPTION_POLICIES)


def _validate_operating_system(path: str, spec: PodSpec) -> Errors:
    if spec.os is None:
        return
    if not spec.os.name:
        yield required(f"{path}.os.name")
    elif spec.os.name not in ("linux", "windows"):
        yield unsupported(f"{path}.os", spec.os.name, ("linux", "windows"))
    else:
        yield from security.validate_operating_system(f"{path}.securityContext", spec.os.name, spec.security_context)
        for place, container in containers_with_path(path, spec):
            context = container.security_context
            yield from security.validate_operating_system(f"{place}.securityContext", spec.os.name, context)


def _validate_scheduling_group(path: str, spec: PodSpec) -> Errors:
    if spec.scheduling_group is None:
        return
    name = spec.scheduling_group.pod_group_name
    place = f"{path}.schedulingGroup.podGroupName"
    if name is None:
        yield invalid(place, None, "must specify one of: `podGroupName`")
    else:
        yield from make_errors(place, name, names.dns_subdomain(name))


def _validate_env_files(path: str, spec: PodSpec) -> Errors:
    """Check that files of variables are in emptyDir volumes, where an init container writes them."""
    sources = {volume.name: volume for volume in spec.volumes}
    for place, container in containers_with_path(path, spec):
        for i, variable in enumerate(container.env):
            if variable.value_from is None or variable.value_from.file_key_ref is None:
                continue
            name = variable.value_from.file_key_ref.volume_name
            where = f"{place}.env[{i}].valueFrom.fileKeyRef.volumeName"
            if name not in sources:
                yield not_found(where, name)
            elif sources[name].empty_dir is None:
                yield invalid(where, name, "referenced volume must be of type emptyDir")
