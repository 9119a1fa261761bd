"""The rules of the group start (jobset KEP-498), which refuse a group that could never start."""

from collections.abc import Collection, Sequence

from muster.api.batch import MAX_PARALLELISM, pods_at_once
from muster.api.jobset import JobSetSpec, ReplicatedJob, names
from muster.api.validation.fields import Errors, duplicate, forbidden, invalid
from muster.api.validation.jobset.claims import list_mounted_volumes

# A limit, because the controller counts and checks each pod individually.
MOST_PODS = MAX_PARALLELISM
_RESERVED = "the name is reserved for the volume that announces the start of the group"


def validate_group_start(path: str, spec: JobSetSpec) -> Errors:
    """Check the replicated jobs whose pods wait for each other."""
    config = spec.group_scheduling_config
    if config is None:
        return
    named = config.target_replicated_jobs
    roles = {role.name for role in spec.replicated_jobs}
    yield from _validate_named_roles(f"{path}.targetReplicatedJobs", named, roles)
    targets = set(named or roles) & roles
    size = sum(_count_pods(role) for role in spec.replicated_jobs if role.name in targets)
    if size > MOST_PODS:
        yield invalid(path, size, f"a group may have at most {MOST_PODS} pods")
    order = spec.startup_policy
    if order is not None and order.startup_policy_order == names.IN_ORDER and len(targets) > 1:
        sentence = (
            "may not span multiple replicated jobs with startupPolicyOrder InOrder: the first would wait for ever"
        )
        yield forbidden(path, sentence)
    if spec.failure_policy is not None and spec.failure_policy.restart_strategy == names.IN_PLACE_RESTART:
        sentence = "may not be combined with restartStrategy InPlaceRestart, which has a barrier of its own"
        yield forbidden(path, sentence)
    yield from _validate_claim_names("spec.volumeClaimPolicies", spec, targets)
    yield from _validate_dependencies("spec.replicatedJobs", spec.replicated_jobs, targets)
    for i, role in enumerate(spec.replicated_jobs):
        where = f"spec.replicatedJobs[{i}]"
        if role.name in targets:
            yield from _validate_volumes(f"{where}.template.spec.template.spec.volumes", role)
        yield from _validate_containers(f"{where}.template.spec.template.spec", role)


def _count_pods(role: ReplicatedJob) -> int:
    """Return the number of pods of a role that start together. A Job without pods counts as a Job with one pod."""
    return role.replicas * max(pods_at_once(role.template.spec), 1)


def _validate_named_roles(path: str, named: tuple[str, ...], roles: Collection[str]) -> Errors:
    seen: set[str] = set()
    for i, name in enumerate(named):
        if name not in roles:
            sentence = f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs"
            yield invalid(f"{path}[{i}]", name, sentence)
        elif name in seen:
            yield duplicate(f"{path}[{i}]", name)
        seen.add(name)


def _validate_dependencies(path: str, roles: Sequence[ReplicatedJob], targets: Collection[str]) -> Errors:
    """Check that no replicated job of the group depends on another replicated job of the group.

    Its pods would be created after the start of the other, whose pods wait for the whole group.
    """
    held: dict[str, str] = {}  # by replicated job, the member of the group that it is or waits for
    for i, role in enumerate(roles):
        for j, dependency in enumerate(role.depends_on):
            if (member := held.get(dependency.name)) is None:
                continue
            if role.name in targets:
                through = "" if member == dependency.name else f", which depends on {member}"
                sentence = (
                    f"replicatedJob {role.name} cannot depend on replicatedJob {dependency.name}{through}: "
                    f"both {role.name} and {member} are in the group, and would wait for each other for ever"
                )
                yield invalid(f"{path}[{i}].dependsOn[{j}].name", dependency.name, sentence)
            held[role.name] = member
        if role.name in targets:
            held[role.name] = role.name


def _validate_containers(path: str, role: ReplicatedJob) -> Errors:
    pod = role.template.spec.template.spec
    for field, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for i, container in enumerate(containers):
            if container.name == names.GROUP_SCHEDULING_INIT:
                sentence = "the name is reserved for the container that waits for the start of the group"
                yield invalid(f"{path}.{field}[{i}].name", container.name, sentence)


def _validate_volumes(path: str, role: ReplicatedJob) -> Errors:
    for i, volume in enumerate(role.template.spec.template.spec.volumes):
        if volume.name == names.GROUP_SCHEDULING_VOLUME:
            yield invalid(f"{path}[{i}].name", volume.name, _RESERVED)


def _validate_claim_names(path: str, spec: JobSetSpec, targets: Collection[str]) -> Errors:
    """Check that no mounted claim has the name of the volume that the group start adds to pods."""
    mounted = {name for role in spec.replicated_jobs if role.name in targets for name in list_mounted_volumes(role)}
    for i, policy in enumerate(spec.volume_claim_policies):
        for j, template in enumerate(policy.templates):
            if (name := template.metadata.name) == names.GROUP_SCHEDULING_VOLUME and name in mounted:
                yield invalid(f"{path}[{i}].templates[{j}].name", name, _RESERVED)
