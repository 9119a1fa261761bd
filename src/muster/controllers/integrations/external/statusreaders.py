"""Read the status of jobs of other projects' kinds. Pure; some functions return a reader for several kinds."""

from collections.abc import Callable

from muster.api.members import mapping_at
from muster.controllers.integrations.external.documents import (
    ExternalJob,
    find_true_condition,
    list_at,
    number_at,
    text_at,
)
from muster.queueing.jobframework.observedjob import End

IsSo = Callable[[ExternalJob], bool]
EndOf = Callable[[ExternalJob], End | None]


def by_condition(type: str) -> IsSo:
    """Return a function that returns whether a job's condition of this type is True."""
    return lambda job: find_true_condition(job.status, type) is not None


def end_by_condition(succeeded: str) -> EndOf:
    """Return a function that returns how a job ended, by this condition or `Failed`; None if neither is True."""

    def end(job: ExternalJob) -> End | None:
        condition = find_true_condition(job.status, succeeded, "Failed")
        return None if condition is None else End(condition.get("type") == succeeded, text_at(condition, "message"))

    return end


def find_no_end(job: ExternalJob) -> None:
    """Return None, for kinds that serve until they are deleted and so never end."""


def has_active_replicas(job: ExternalJob) -> bool:
    """Return whether a Kubeflow job has active pods, or the condition Running but not Suspended."""
    roles = mapping_at(job.status, "replicaStatuses")
    if any(number_at(roles, role, "active") for role in roles):
        return True
    return (
        find_true_condition(job.status, "Running") is not None and find_true_condition(job.status, "Suspended") is None
    )


def ray_job_is_active(job: ExternalJob) -> bool:
    """Return whether the RayJob's cluster may have pods: it is neither new nor suspended."""
    return text_at(job.status, "jobDeploymentStatus") not in ("", "Suspended")


def ray_job_is_ready(job: ExternalJob) -> bool:
    """Return whether the RayJob's cluster is ready."""
    return text_at(job.status, "rayClusterStatus", "state") == "ready"


def ray_job_end(job: ExternalJob) -> End | None:
    """Return how a RayJob ended, by its job status and its deployment status; None if it has not ended."""
    if text_at(job.status, "jobDeploymentStatus") not in ("Complete", "Failed"):
        return None
    return End(text_at(job.status, "jobStatus") == "SUCCEEDED", text_at(job.status, "message"))


def ray_cluster_is_active(job: ExternalJob) -> bool:
    """Return whether a RayCluster may have pods: it is ready, or counts workers and is not suspended."""
    state = text_at(job.status, "state")
    return state == "ready" or (state != "suspended" and number_at(job.status, "availableWorkerReplicas") > 0)


def ray_cluster_is_ready(job: ExternalJob) -> bool:
    """Return whether a RayCluster is ready."""
    return text_at(job.status, "state") == "ready"


def app_wrapper_end(job: ExternalJob) -> End | None:
    """Return how an AppWrapper ended; None if it has not. A failed AppWrapper ends when its resources are gone."""
    phase = text_at(job.status, "phase")
    if phase == "Succeeded":
        return End(True, "AppWrapper finished successfully")
    if phase == "Failed" and find_true_condition(job.status, "ResourcesDeployed") is None:
        return End(False, "AppWrapper failed")
    return None


def train_jobs(job: ExternalJob, count: str) -> dict[str, int]:
    """Return how many Jobs of each replicated job of a TrainJob are in a state, by the replicated job's name.

    count: the state: `active`, `ready` or `succeeded`.
    """
    return {text_at(one, "name"): number_at(one, count) for one in list_at(job.status, "jobsStatus")}


def train_job_is_active(job: ExternalJob) -> bool:
    """Return whether a Job of the TrainJob is active."""
    return any(train_jobs(job, "active").values())
