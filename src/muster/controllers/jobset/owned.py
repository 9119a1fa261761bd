"""Which JobSet an object belongs to, and which JobSets share a Service."""

from muster.api.batch import Job
from muster.api.core import ConfigMap
from muster.api.jobset import JOB_SET, JobSet
from muster.api.jobset.naming import subdomain
from muster.api.meta import OwnerReference, controller_of
from muster.jobs.jobset.terms import has_dns_names
from muster.runtime.objects import meta_of

# Indexes of the informers.
BY_JOBSET = "jobset-uid"  # Jobs, by the UID of the JobSet that controls them
BY_SERVICE = "jobset-service"  # JobSets, by the key of the Service that names their pods


def jobset_reference(obj: Job | ConfigMap) -> OwnerReference | None:
    """The object's controller, if it is a JobSet."""
    owner = controller_of(meta_of(obj))
    return owner if owner is not None and JOB_SET.is_of(owner) else None


def is_of(obj: Job | ConfigMap, jobset: JobSet) -> bool:
    """Whether the JobSet controls the object."""
    owner = jobset_reference(obj)
    return owner is not None and owner.uid == jobset.metadata.uid


def by_jobset(job: Job) -> tuple[str, ...]:
    """For the index BY_JOBSET."""
    owner = jobset_reference(job)
    return (owner.uid,) if owner is not None else ()


def by_service(jobset: JobSet) -> tuple[str, ...]:
    """For the index BY_SERVICE."""
    return (f"{jobset.metadata.namespace}/{subdomain(jobset)}",) if has_dns_names(jobset) else ()
