"""Decide when a JobSet has succeeded."""

from muster.api.jobset import JobSet, names
from muster.jobs.jobset.census import Census


def has_succeeded(jobset: JobSet, census: Census) -> bool:
    """Return whether enough Jobs of the roles that the success policy names have succeeded.

    Without a policy, all must.
    """
    policy = jobset.spec.success_policy
    targets = policy.target_replicated_jobs if policy is not None else ()
    succeeded = sum(not targets or member.role in targets for member in census.successful)
    if policy is not None and policy.operator == names.ANY:
        return succeeded > 0
    replicas = sum(role.replicas for role in jobset.spec.replicated_jobs if not targets or role.name in targets)
    return bool(census.successful) and succeeded >= replicas
