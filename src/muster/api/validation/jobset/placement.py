"""The rules of exclusive placement, which annotations request. A JobSet whose pods would be refused is refused."""

from collections.abc import Mapping

from muster.api.jobset import JobSet, ReplicatedJob, names
from muster.api.jobset.naming import job_name
from muster.api.validation.fields import Errors, make_errors
from muster.api.validation.names import label_key, label_value


def validate_exclusive_placement(job_set: JobSet) -> Errors:
    """Check that the topology is a label of nodes, and that the label of reserved nodes can have the name of a Job."""
    said = job_set.metadata.annotations
    yield from _validate_topology("metadata.annotations", said)
    for i, role in enumerate(job_set.spec.replicated_jobs):
        own = role.template.metadata.annotations
        yield from _validate_topology(f"spec.replicatedJobs[{i}].template.metadata.annotations", own)
        asked = (said if names.EXCLUSIVE_TOPOLOGY in said else {}) | own
        if names.EXCLUSIVE_TOPOLOGY in asked and names.NODE_SELECTOR_STRATEGY in asked:
            yield from _validate_label_of_nodes(f"spec.replicatedJobs[{i}].name", job_set, role)


def _validate_topology(path: str, annotations: Mapping[str, str]) -> Errors:
    key = annotations.get(names.EXCLUSIVE_TOPOLOGY)
    if key is not None:
        yield from make_errors(f"{path}[{names.EXCLUSIVE_TOPOLOGY}]", key, label_key(key))


def _validate_label_of_nodes(path: str, job_set: JobSet, role: ReplicatedJob) -> Errors:
    value = f"{job_set.metadata.namespace}_{job_name(job_set, role.name, max(role.replicas, 1) - 1)}"
    sentences = (f"as value of the label {names.NAMESPACED_JOB} of nodes: {said}" for said in label_value(value))
    yield from make_errors(path, value, sentences)
