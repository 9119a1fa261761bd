"""The rules of upstream's webhook for JobSets, and the rules of the group start."""

from collections.abc import Collection

from muster.api.batch import INDEXED, JobSpec
from muster.api.jobset import DependsOn, JobSet, ReplicatedJob, names, naming
from muster.api.validation.fields import Errors, forbidden, invalid, make_errors, too_long
from muster.api.validation.jobs.job import validate_domain_prefixed_path
from muster.api.validation.jobset.claims import validate_volume_claims
from muster.api.validation.jobset.coordinator import validate_coordinator
from muster.api.validation.jobset.failure import validate_failure_policy
from muster.api.validation.jobset.groupstart import validate_group_start
from muster.api.validation.jobset.placement import validate_exclusive_placement
from muster.api.validation.jobset.template import validate_job_template
from muster.api.validation.names import dns_1035_label, dns_subdomain

# Muster's own limit: upstream allows as many Jobs as an int32 can express.
_MOST_JOBS = 100_000

_MAX_INT32 = 2**31 - 1
_MAX_NAME = 63
_SUFFIX = "-abcde"  # the end of a pod's name: any five characters
_TOO_LONG = f"must be no more than {_MAX_NAME} characters"

_SUBDOMAIN_TOO_LONG = ".spec.network.subdomain is too long, must be less than 63 characters"
_GROUP_NAME_TOO_LONG = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
_JOB_NAME_TOO_LONG = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
_POD_NAME_TOO_LONG = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"


def validate_job_set(job_set: JobSet) -> Errors:
    """Yield the errors in a JobSet, new or updated, by the rules of JobSet's webhook."""
    spec = job_set.spec
    if spec.replicated_jobs and spec.replicated_jobs[0].depends_on:
        sentence = "DependsOn can't be set for the first ReplicatedJob"
        yield forbidden("spec.replicatedJobs[0].dependsOn", sentence)
    if spec.network is not None and spec.network.subdomain:
        yield from _validate_subdomain("spec.network.subdomain", spec.network.subdomain)
    if spec.managed_by is not None:
        yield from validate_domain_prefixed_path("spec.managedBy", spec.managed_by)
        if len(spec.managed_by.encode()) > _MAX_NAME:
            yield too_long("spec.managedBy", _MAX_NAME)
    earlier: set[str] = set()
    for i, role in enumerate(spec.replicated_jobs):
        yield from _validate_replicated_job(f"spec.replicatedJobs[{i}]", job_set, role, earlier)
        earlier.add(role.name)
    jobs = sum(role.replicas for role in spec.replicated_jobs)
    if jobs > _MOST_JOBS:
        yield invalid("spec.replicatedJobs", jobs, f"must not make more than {_MOST_JOBS} Jobs")
    if spec.success_policy is not None:
        path = "spec.successPolicy.targetReplicatedJobs"
        for i, target in enumerate(spec.success_policy.target_replicated_jobs):
            if target not in earlier:
                sentence = f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"
                yield invalid(f"{path}[{i}]", target, sentence)
    if spec.failure_policy is not None:
        yield from validate_failure_policy("spec.failurePolicy", spec.failure_policy, spec.replicated_jobs)
    if spec.coordinator is not None:
        yield from validate_coordinator("spec.coordinator", job_set, spec.coordinator)
    yield from validate_volume_claims("spec.volumeClaimPolicies", job_set)
    yield from validate_group_start("spec.groupSchedulingConfig", spec)
    yield from validate_exclusive_placement(job_set)


def _validate_subdomain(path: str, value: str) -> Errors:
    yield from make_errors(path, value, dns_subdomain(value))
    yield from make_errors(path, value, _explain_label_or_length(value, _SUBDOMAIN_TOO_LONG))


def _explain_label_or_length(value: str, sentence: str) -> list[str]:
    """Return the errors in a DNS-1035 label, with a message of its own for a label that is too long."""
    return [sentence if message == _TOO_LONG else message for message in dns_1035_label(value)]


def _validate_replicated_job(path: str, job_set: JobSet, role: ReplicatedJob, earlier: Collection[str]) -> Errors:
    job = role.template.spec
    if (1 if job.parallelism is None else job.parallelism) * role.replicas > _MAX_INT32:
        sentence = f"the product of replicas and parallelism must not exceed {_MAX_INT32} for replicatedJob"
        yield invalid(f"{path}.replicas", role.replicas, f"{sentence} '{role.name}'")
    yield from make_errors(
        f"{path}.groupName", role.group_name, _explain_label_or_length(role.group_name, _GROUP_NAME_TOO_LONG)
    )
    yield from _validate_names(f"{path}.name", job_set, role)
    yield from _validate_dependencies(f"{path}.dependsOn", role.name, role.depends_on, earlier)
    policy = job_set.spec.failure_policy
    if policy is not None and policy.restart_strategy == names.IN_PLACE_RESTART:
        yield from _validate_in_place_restart(f"{path}.template.spec", role.name, job)
    yield from validate_job_template(f"{path}.template", job_set, role)


def _validate_names(path: str, job_set: JobSet, role: ReplicatedJob) -> Errors:
    """Check the longest names of Jobs and pods, which have the highest indexes."""
    last, job = max(role.replicas, 1) - 1, role.template.spec
    longest = naming.job_name(job_set, role.name, last)
    yield from make_errors(path, longest, _explain_label_or_length(longest, _JOB_NAME_TOO_LONG))
    if job.completion_mode == INDEXED and job.completions is not None:
        pod = naming.pod_host(job_set, role.name, last, max(job.completions, 1) - 1) + _SUFFIX
        yield from make_errors(path, longest, _explain_label_or_length(pod, _POD_NAME_TOO_LONG))


def _validate_dependencies(path: str, role: str, on: tuple[DependsOn, ...], earlier: Collection[str]) -> Errors:
    """Check that a role depends only on earlier ones. Upstream lets a role wait for itself forever."""
    for i, dependency in enumerate(on):
        if dependency.name not in earlier:
            sentence = f"replicatedJob: {role} cannot depend on replicatedJob: {dependency.name}"
            yield invalid(f"{path}[{i}].name", dependency.name, sentence)


def _validate_in_place_restart(path: str, role: str, job: JobSpec) -> Errors:
    """Yield the errors in a Job whose containers restart in their pods."""
    when = "when in-place restart is enabled"
    if job.backoff_limit != _MAX_INT32:
        sentence = f"replicatedJob {role}: must be set to {_MAX_INT32} (MaxInt32) {when}"
        yield invalid(f"{path}.backoffLimit", job.backoff_limit, sentence)
    if job.pod_replacement_policy != "Failed":
        sentence = f"replicatedJob {role}: must be set to Failed {when}"
        yield invalid(f"{path}.podReplacementPolicy", job.pod_replacement_policy, sentence)
    if job.completions is None or job.completions != job.parallelism:
        sentence = f"replicatedJob {role}: completions and parallelism must be set and equal to each other {when}"
        yield invalid(f"{path}.completions", job.completions, sentence)
