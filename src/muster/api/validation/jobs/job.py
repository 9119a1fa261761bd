"""The rules of Jobs: what a new one may be, and what may change afterwards.

Paths and sentences follow k8s.io/kubernetes/pkg/apis/batch/validation (1.36). Elastic Indexed Jobs follow the
text of kubernetes KEP-3715 by default: completions change only together with parallelism, equal before and
after, and never once the Job has finished. `elastic="upstream"` is what the API server's code does: only the new
values must be equal.
"""

from typing import Literal

import msgspec

from muster.api.batch import (
    CONTROLLER_UID_LABEL,
    INDEXED,
    JOB_NAME_LABEL,
    LEGACY_CONTROLLER_UID_LABEL,
    LEGACY_JOB_NAME_LABEL,
    MAX_PARALLELISM,
    NON_INDEXED,
    Job,
    JobSpec,
    JobStatus,
)
from muster.api.conditions import is_true
from muster.api.core import Affinity, Container, PodSpec, PodTemplateSpec
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import (
    IMMUTABLE,
    Errors,
    invalid,
    make_errors,
    required,
    too_long,
    unsupported,
    validate_immutable,
    validate_not_negative,
)
from muster.api.validation.jobs import policies, status
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_label, validate_label_selector
from muster.api.validation.pods.podspec import validate_pod_template
from muster.api.values.selectors import SelectorError, label_matcher

Elastic = Literal["kep", "upstream"]

_MANY_COMPLETIONS = 100_000
_LIMIT_FOR_MANY = 10_000  # the limit of parallelism and maxFailedIndexes with backoffLimitPerIndex
_MAX_MANAGED_BY = 63
_REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")


def validate_create(job: Job) -> list[FieldError]:
    """Return the errors in a new Job with its defaults and its generated selector."""
    return list(_validate_job(job))


def validate_update(new: Job, old: Job, *, elastic: Elastic = "kep") -> list[FieldError]:
    """Return the errors in a change of a Job's metadata or spec."""
    return [*_validate_new_rules(new), *_validate_update(new, old, elastic)]


def validate_status_update(new: Job, old: Job) -> list[FieldError]:
    """Return the errors in a change of a Job's status. Only changed fields are checked."""
    return [*changed_metadata(new.metadata, old.metadata), *status.validate_change(new, old)]


def validate_template_spec(path: str, spec: JobSpec) -> list[FieldError]:
    """Return the errors in the spec of a Job that a controller will create, which has no selector yet."""
    return list(_validate_job_template_spec(path, spec))


def _validate_job(job: Job) -> Errors:
    yield from new_metadata(job.metadata, names.dns_subdomain)
    yield from _validate_generated_selector(job)
    yield from _validate_spec("spec", job.spec)
    yield from _validate_pod_names(job)


def _validate_new_rules(job: Job) -> Errors:
    """Yield the errors in a Job, new or updated."""
    yield from _validate_generated_selector(job)
    yield from _validate_spec("spec", job.spec)
    yield from _validate_pod_names(job)


def _validate_job_template_spec(path: str, spec: JobSpec) -> Errors:
    yield from _validate_spec_without_selector(path, spec)
    if spec.selector is not None:
        yield invalid(f"{path}.selector", spec.selector, "`selector` will be auto-generated")
    if spec.manual_selector:
        yield unsupported(f"{path}.manualSelector", value=True, values=("nil", "false"))


def _validate_pod_names(job: Job) -> Errors:
    """Check that the longest pod name of an Indexed Job is a label."""
    completions = job.spec.completions
    if job.spec.completion_mode == INDEXED and completions:
        hostname = f"{job.metadata.name}-{completions - 1}"
        if completions > 0 and names.dns_label(hostname):
            sentence = f"will not able to create pod with invalid DNS label: {hostname}"
            yield invalid("metadata.name", job.metadata.name, sentence)


def _validate_generated_selector(job: Job) -> Errors:
    if job.spec.manual_selector or job.spec.selector is None:
        return
    uid, name = job.metadata.uid, job.metadata.name
    if not uid:
        yield required("metadata.uid")
    expected = {
        LEGACY_CONTROLLER_UID_LABEL: uid,
        LEGACY_JOB_NAME_LABEL: name,
        CONTROLLER_UID_LABEL: uid,
        JOB_NAME_LABEL: name,
    }
    for label, value in expected.items():
        yield from validate_label("spec.template.metadata", job.spec.template.metadata, label, value)
    try:
        matcher = label_matcher(job.spec.selector)
    except SelectorError:
        return  # the rule of selectors reports the error
    if not matcher.matches(expected):
        yield invalid("spec.selector", job.spec.selector, "`selector` not auto-generated")


def _validate_spec(path: str, spec: JobSpec) -> Errors:
    yield from _validate_spec_without_selector(path, spec)
    if spec.selector is None:
        yield required(f"{path}.selector")
        return
    yield from validate_label_selector(f"{path}.selector", spec.selector)
    try:
        matcher = label_matcher(spec.selector)
    except SelectorError:
        return  # another rule reports the error
    if not matcher.matches(spec.template.metadata.labels):
        place = f"{path}.template.metadata.labels"
        yield invalid(place, spec.template.metadata.labels, "`selector` does not match template `labels`")


def _validate_spec_without_selector(path: str, spec: JobSpec) -> Errors:
    yield from validate_not_negative(f"{path}.parallelism", spec.parallelism)
    yield from validate_not_negative(f"{path}.completions", spec.completions)
    yield from validate_not_negative(f"{path}.activeDeadlineSeconds", spec.active_deadline_seconds)
    yield from validate_not_negative(f"{path}.backoffLimit", spec.backoff_limit)
    yield from validate_not_negative(f"{path}.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished)
    yield from validate_not_negative(f"{path}.backoffLimitPerIndex", spec.backoff_limit_per_index)
    yield from validate_not_negative(f"{path}.maxFailedIndexes", spec.max_failed_indexes)
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.managed_by is not None:
        yield from validate_domain_prefixed_path(f"{path}.managedBy", spec.managed_by)
        if len(spec.managed_by.encode()) > _MAX_MANAGED_BY:
            yield too_long(f"{path}.managedBy", _MAX_MANAGED_BY)
    mode = spec.completion_mode
    if mode not in (None, NON_INDEXED, INDEXED):
        yield unsupported(f"{path}.completionMode", mode, (NON_INDEXED, INDEXED))
    if mode == INDEXED:
        yield from _validate_indexed_fields(path, spec)
    elif mode in (None, NON_INDEXED):
        for field, value in (
            ("backoffLimitPerIndex", spec.backoff_limit_per_index),
            ("maxFailedIndexes", spec.max_failed_indexes),
        ):
            if value is not None:
                yield invalid(f"{path}.{field}", value, "requires indexed completion mode")
    yield from policies.validate_pod_failure_policy(f"{path}.podFailurePolicy", spec)
    yield from policies.validate_success_policy(f"{path}.successPolicy", spec)
    yield from _validate_replacement_policy(f"{path}.podReplacementPolicy", spec)
    yield from validate_pod_template(f"{path}.template", spec.template)
    yield from _validate_restart_policy(f"{path}.template.spec.restartPolicy", spec)


def _validate_indexed_fields(path: str, spec: JobSpec) -> Errors:
    completions, parallelism, most_failed = spec.completions, spec.parallelism, spec.max_failed_indexes
    if completions is None:
        yield required(f"{path}.completions", f"when completion mode is {INDEXED}")
    if parallelism is not None and parallelism > MAX_PARALLELISM:
        sentence = f"must be less than or equal to {MAX_PARALLELISM} when completion mode is {INDEXED}"
        yield invalid(f"{path}.parallelism", parallelism, sentence)
    if most_failed is not None:
        if completions is not None and most_failed > completions:
            yield invalid(f"{path}.maxFailedIndexes", most_failed, "must be less than or equal to completions")
        if most_failed > MAX_PARALLELISM:
            sentence = f"must be less than or equal to {MAX_PARALLELISM}"
            yield invalid(f"{path}.maxFailedIndexes", most_failed, sentence)
    if completions is None or completions <= _MANY_COMPLETIONS or spec.backoff_limit_per_index is None:
        return
    if most_failed is None:
        sentence = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        yield required(f"{path}.maxFailedIndexes", sentence)
    sentence = (
        f"must be less than or equal to {_LIMIT_FOR_MANY} when completions are above {_MANY_COMPLETIONS} "
        "and used with backoff limit per index"
    )
    if parallelism is not None and parallelism > _LIMIT_FOR_MANY:
        yield invalid(f"{path}.parallelism", parallelism, sentence)
    if most_failed is not None and most_failed > _LIMIT_FOR_MANY:
        yield invalid(f"{path}.maxFailedIndexes", most_failed, sentence)


def _validate_replacement_policy(path: str, spec: JobSpec) -> Errors:
    policy = spec.pod_replacement_policy
    policies = ("Failed",) if spec.pod_failure_policy is not None else _REPLACEMENT_POLICIES
    if policy is not None and policy not in policies:
        yield unsupported(path, policy, policies)


def _validate_restart_policy(path: str, spec: JobSpec) -> Errors:
    policy = spec.template.spec.restart_policy
    if policy in ("Always", ""):  # Always is the default of an absent policy
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield unsupported(path, policy, ("OnFailure", "Never"))
    elif spec.pod_failure_policy is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def validate_domain_prefixed_path(path: str, value: str) -> Errors:
    """Check a controller's name, such as example.com/controller."""
    if not value:
        yield required(path)
        return
    host, _, rest = value.partition("/")
    if not host or not rest:
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from make_errors(path, host, names.dns_subdomain(host))
    yield from make_errors(path, rest, names.http_path(rest))


def _validate_update(new: Job, old: Job, elastic: Elastic) -> Errors:
    yield from changed_metadata(new.metadata, old.metadata)
    yield from _validate_completions(new.spec, old, elastic)
    yield from validate_immutable("spec.selector", new.spec.selector, old.spec.selector)
    yield from _validate_template_update(new.spec, old)
    for path, now, before in (
        ("spec.completionMode", new.spec.completion_mode, old.spec.completion_mode),
        ("spec.podFailurePolicy", new.spec.pod_failure_policy, old.spec.pod_failure_policy),
        ("spec.backoffLimitPerIndex", new.spec.backoff_limit_per_index, old.spec.backoff_limit_per_index),
        ("spec.managedBy", new.spec.managed_by, old.spec.managed_by),
        ("spec.successPolicy", new.spec.success_policy, old.spec.success_policy),
    ):
        yield from validate_immutable(path, now, before)


def _validate_completions(spec: JobSpec, old: Job, elastic: Elastic) -> Errors:
    path = "spec.completions"
    if spec.completion_mode != INDEXED:
        yield from validate_immutable(path, spec.completions, old.spec.completions)
        return
    if spec.completions == old.spec.completions or spec.completions is None:
        return  # another rule refuses an Indexed Job without completions
    tandem = "can only be modified in tandem with spec.parallelism"
    if spec.completions != spec.parallelism:
        yield invalid(path, spec.completions, tandem)
    elif elastic == "kep":
        if old.spec.completions != old.spec.parallelism:
            yield invalid(path, spec.completions, f"{tandem}, and only if the two are equal before the change")
        if status.is_ending(old.status):
            yield invalid(path, spec.completions, f"{IMMUTABLE} once the job is finished")


def _validate_template_update(spec: JobSpec, old: Job) -> Errors:
    """Check that a template changes only while its Job is suspended and has no pods.

    Only the labels, annotations, placement and resources of the pods may change.
    """
    new = spec.template
    allowed = old.spec.template
    if old.spec.suspend and _has_no_pods(old.status):
        allowed = _replace_resources(_replace_directives(allowed, new), new)
    yield from validate_immutable("spec.template", new, allowed)


def _has_no_pods(status: JobStatus) -> bool:
    return status.start_time is None or (is_true(status.conditions, "Suspended") and status.active == 0)


def _replace_directives(template: PodTemplateSpec, new: PodTemplateSpec) -> PodTemplateSpec:
    """Return the template with the new one's labels, annotations and scheduling directives."""
    metadata = msgspec.structs.replace(
        template.metadata, labels=new.metadata.labels, annotations=new.metadata.annotations
    )
    spec = msgspec.structs.replace(
        template.spec,
        affinity=_replace_node_affinity(template.spec.affinity, new.spec.affinity),
        node_selector=new.spec.node_selector,
        tolerations=new.spec.tolerations,
        scheduling_gates=new.spec.scheduling_gates,
    )
    return msgspec.structs.replace(template, metadata=metadata, spec=spec)


def _replace_node_affinity(affinity: Affinity | None, new: Affinity | None) -> Affinity | None:
    if new is None:
        # Node affinity may be removed, and an affinity that is then empty too.
        rest = msgspec.structs.replace(affinity or Affinity(), node_affinity=None)
        return None if rest == Affinity() else rest
    return msgspec.structs.replace(affinity or Affinity(), node_affinity=new.node_affinity)


def _replace_resources(template: PodTemplateSpec, new: PodTemplateSpec) -> PodTemplateSpec:
    """Return the template with the new one's requests and limits of containers."""
    spec: PodSpec = msgspec.structs.replace(
        template.spec,
        containers=_replace_container_resources(template.spec.containers, new.spec.containers),
        init_containers=_replace_container_resources(template.spec.init_containers, new.spec.init_containers),
    )
    return msgspec.structs.replace(template, spec=spec)


def _replace_container_resources(old: tuple[Container, ...], new: tuple[Container, ...]) -> tuple[Container, ...]:
    if len(old) != len(new):
        return old
    return tuple(
        msgspec.structs.replace(before, resources=now.resources) if before.name == now.name else before
        for before, now in zip(old, new, strict=True)
    )
