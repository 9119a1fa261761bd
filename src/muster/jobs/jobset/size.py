"""Count the pods that a JobSet runs at the same time. Pure."""

from muster.api.batch import pods_at_once
from muster.api.jobset import ReplicatedJob


def pods_of_job(role: ReplicatedJob) -> int:
    """Return how many pods each Job of a role runs at the same time."""
    return pods_at_once(role.template.spec)


def pods_of_role(role: ReplicatedJob) -> int:
    """Return how many pods all Jobs of a role run at the same time."""
    return role.replicas * pods_of_job(role)
