"""How many pods a JobSet runs side by side. Pure."""

from muster.api.jobset import ReplicatedJob


def pods_of_job(role: ReplicatedJob) -> int:
    """Of each Job of a role."""
    spec = role.template.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def pods_of_role(role: ReplicatedJob) -> int:
    """Of all Jobs of a role."""
    return role.replicas * pods_of_job(role)
