"""Find the JobSet of an object, and the JobSets that share a Service."""

from muster.api.batch import Job
from muster.api.core import ConfigMap, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.jobset.names import JOBSET_UID
from muster.api.jobset.naming import name_subdomain
from muster.api.meta import OwnerReference, controller_of
from muster.jobs.jobset.terms import has_dns_names
from muster.runtime.objects import ignores_status, meta_of, owner_key

# Indexes of the informers.
BY_JOBSET = "jobset-uid"  # Jobs, by the namespace and the UID of the JobSet that controls them
PODS_BY_JOBSET = "jobset-uid-of-pod"  # pods, by the namespace and the UID of their JobSet
BY_SERVICE = "jobset-service"  # JobSets, by the key of the Service that names their pods


def jobset_reference(obj: Job | ConfigMap) -> OwnerReference | None:
    """Return the reference to the object's controller if it is a JobSet; otherwise None."""
    owner = controller_of(meta_of(obj))
    return owner if owner is not None and JOB_SET.is_of(owner) else None


def is_of(obj: Job | ConfigMap, jobset: JobSet) -> bool:
    """Return whether the JobSet controls the object."""
    owner = jobset_reference(obj)
    return owner is not None and owner.uid == jobset.metadata.uid


@ignores_status
def by_jobset(job: Job) -> tuple[str, ...]:
    """Return the key of the JobSet that controls a Job, for the index BY_JOBSET; empty for any other Job."""
    owner = jobset_reference(job)
    return (owner_key(job.metadata.namespace, owner.uid),) if owner is not None else ()


@ignores_status
def pods_by_jobset(pod: Pod) -> tuple[str, ...]:
    """Return the key of the JobSet that a pod's label names, for the index PODS_BY_JOBSET; empty for any other pod."""
    uid = pod.metadata.labels.get(JOBSET_UID)
    return (owner_key(pod.metadata.namespace, uid),) if uid else ()


@ignores_status
def by_service(jobset: JobSet) -> tuple[str, ...]:
    """Return the key of the Service that a JobSet uses, for the index BY_SERVICE; empty if it uses none."""
    return (f"{jobset.metadata.namespace}/{name_subdomain(jobset)}",) if has_dns_names(jobset) else ()
