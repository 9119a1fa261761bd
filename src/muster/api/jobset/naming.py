"""The names of the objects that a JobSet creates."""

from muster.api.jobset import Coordinator, JobSet


def job_name(job_set: JobSet, role: str, index: int) -> str:
    """Return the name of one of the JobSet's Jobs.

    index: the number of the Job in its role, from 0.
    """
    return f"{job_set.metadata.name}-{role}-{index}"


def pod_host(job_set: JobSet, role: str, job: int, pod: int) -> str:
    """Return the host name of a pod of an Indexed Job, which is the pod's name without the random suffix."""
    return f"{job_name(job_set, role, job)}-{pod}"


def name_subdomain(job_set: JobSet) -> str:
    """Return the name of the JobSet's headless Service."""
    network = job_set.spec.network
    return network.subdomain if network is not None and network.subdomain else job_set.metadata.name


def coordinator_endpoint(job_set: JobSet, coordinator: Coordinator) -> str:
    """Return the address at which other pods reach the coordinator."""
    host = pod_host(job_set, coordinator.replicated_job, coordinator.job_index, coordinator.pod_index)
    return f"{host}.{name_subdomain(job_set)}"


def claim_name(job_set: JobSet, template: str) -> str:
    """Return the name of the claim that is created from a template."""
    return f"{template}-{job_set.metadata.name}"
