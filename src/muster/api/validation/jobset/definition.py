"""The rules of upstream's CRD in addition to its schema (CEL)."""

from typing import Any

from muster.api.jobset import JobSet, names
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.kueue.rules import ARRAY, OBJECT

_IMMUTABLE = "Value is immutable"


def validate_job_set(job_set: JobSet) -> Errors:
    """Yield the errors in a JobSet, new or updated, by the rules of JobSet's definition."""
    spec = job_set.spec
    in_order = spec.startup_policy is not None and spec.startup_policy.startup_policy_order == names.IN_ORDER
    if in_order and any(role.depends_on for role in spec.replicated_jobs):
        yield invalid("spec", OBJECT, "StartupPolicy and DependsOn APIs are mutually exclusive")
    for i, policy in enumerate(spec.volume_claim_policies):
        if any(template.metadata.namespace for template in policy.templates):
            sentence = "namespace cannot be set for VolumeClaimPolicies templates"
            yield invalid(f"spec.volumeClaimPolicies[{i}]", OBJECT, sentence)


def validate_changes(new: JobSet, old: JobSet) -> Errors:
    """Check that immutable fields do not change.

    Unlike CEL, which compares only present fields, this also forbids adding or removing.
    """
    before = {role.name: role.depends_on for role in old.spec.replicated_jobs}
    for i, role in enumerate(new.spec.replicated_jobs):
        depended = before.get(role.name, role.depends_on)
        yield from _validate_unchanged(f"spec.replicatedJobs[{i}].dependsOn", ARRAY, role.depends_on, depended)
    now, then = new.spec, old.spec
    for name, value, stored in (
        ("network", now.network, then.network),
        ("successPolicy", now.success_policy, then.success_policy),
        ("failurePolicy", now.failure_policy, then.failure_policy),
        ("startupPolicy", now.startup_policy, then.startup_policy),
        ("groupSchedulingConfig", now.group_scheduling_config, then.group_scheduling_config),
    ):
        yield from _validate_unchanged(f"spec.{name}", OBJECT, value, stored)
    yield from _validate_unchanged(
        "spec.volumeClaimPolicies", ARRAY, now.volume_claim_policies, then.volume_claim_policies
    )


def _validate_unchanged(path: str, value: str, new: Any, old: Any) -> Errors:
    if new != old:
        yield invalid(path, value, _IMMUTABLE)
