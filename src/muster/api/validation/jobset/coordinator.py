"""The rules of the coordinator, the pod that the other pods look up."""

from muster.api.batch import INDEXED
from muster.api.jobset import Coordinator, JobSet, names
from muster.api.jobset.naming import coordinator_endpoint
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.names import label_value


def validate_coordinator(path: str, job_set: JobSet, pod: Coordinator) -> Errors:
    """Check that the JobSet has the coordinator's pod, and that the pod's host name is a valid label."""
    yield from _validate_existence(path, job_set, pod)
    endpoint = coordinator_endpoint(job_set, pod)
    messages = label_value(endpoint)
    if messages:
        sentence = (
            f'spec will lead to invalid label value "{endpoint}" for coordinator label "{names.COORDINATOR}" '
            f"(long JobSet / ReplicatedJob / SubDomain name?): {', '.join(messages)}"
        )
        yield invalid(path, endpoint, sentence)


def _validate_existence(path: str, job_set: JobSet, pod: Coordinator) -> Errors:
    role = next((role for role in job_set.spec.replicated_jobs if role.name == pod.replicated_job), None)
    if role is None:
        sentence = f"coordinator replicatedJob {pod.replicated_job} does not exist"
        yield invalid(f"{path}.replicatedJob", pod.replicated_job, sentence)
        return
    job = role.template.spec
    if not 0 <= pod.job_index < role.replicas:
        sentence = f"coordinator job index {pod.job_index} is invalid for replicatedJob {role.name}"
        yield invalid(f"{path}.jobIndex", pod.job_index, sentence)
    elif job.completion_mode != INDEXED or job.completions is None:
        sentence = "job for coordinator pod must be indexed completion mode, and completions number must be set"
        yield invalid(f"{path}.replicatedJob", role.name, sentence)
    elif not 0 <= pod.pod_index < job.completions:
        sentence = (
            f"coordinator pod index {pod.pod_index} is invalid for replicatedJob {role.name} job index {pod.job_index}"
        )
        yield invalid(f"{path}.podIndex", pod.pod_index, sentence)
