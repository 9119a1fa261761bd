"""The rules of the claims on storage that a JobSet creates."""

from collections.abc import Iterator

from muster.api.jobset import JobSet, ReplicatedJob
from muster.api.jobset.naming import claim_name
from muster.api.validation.fields import Errors, invalid, make_errors
from muster.api.validation.names import dns_subdomain

_MAX_NAME = 63


def validate_volume_claims(path: str, job_set: JobSet) -> Errors:
    """Check that each claim has a valid name, which no other claim or volume has, and that a container mounts it.

    Whether the claims exist is checked later.
    """
    seen: set[str] = set()
    roles = job_set.spec.replicated_jobs
    mounted = {name for role in roles for name in list_mounted_volumes(role)}
    for i, policy in enumerate(job_set.spec.volume_claim_policies):
        for j, template in enumerate(policy.templates):
            name = template.metadata.name
            where = f"{path}[{i}].templates[{j}].name"
            if name in seen:
                yield invalid(where, name, "names must be unique for VolumeClaimPolicies template")
            seen.add(name)
            yield from make_errors(where, name, dns_subdomain(name))
            if len(claim_name(job_set, name).encode()) > _MAX_NAME:
                yield invalid(where, name, "VolumeClaimPolicies template name is too long")
            if name not in mounted:
                sentence = (
                    f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
                )
                yield invalid("spec.replicatedJobs", [role.name for role in roles], sentence)
    for where, name in _list_volumes(roles):
        if name in seen:
            yield invalid(where, name, f"volume name conflicts with VolumeClaimPolicy template name: {name}")


def list_mounted_volumes(role: ReplicatedJob) -> frozenset[str]:
    """Return the names of the volumes that the containers of a replicated job mount."""
    spec = role.template.spec.template.spec
    containers = (*spec.init_containers, *spec.containers)
    return frozenset(mount.name for container in containers for mount in container.volume_mounts)


def _list_volumes(roles: tuple[ReplicatedJob, ...]) -> Iterator[tuple[str, str]]:
    """Yield the paths and names of the volumes that exist without claims."""
    for i, role in enumerate(roles):
        path = f"spec.replicatedJobs[{i}].template.spec.template.spec.volumes"
        for j, volume in enumerate(role.template.spec.template.spec.volumes):
            yield f"{path}[{j}].name", volume.name
