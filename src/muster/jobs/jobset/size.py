"""How many pods a JobSet runs side by side. Pure."""

from muster.api.batch import pods_at_once
from muster.api.jobset import ReplicatedJob


def pods_of_job(role: ReplicatedJob) -> int:
    """Of each Job of a role."""
    return pods_at_once(role.template.spec)


def pods_of_role(role: ReplicatedJob) -> int:
    """Of all Jobs of a role."""
    return role.replicas * pods_of_job(role)
