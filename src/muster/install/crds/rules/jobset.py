"""List the CEL rules of JobSets."""

from collections.abc import Mapping
from typing import Final

from muster.api import jobset
from muster.api.jobset import names
from muster.install.crds.rules.rule import UNCHANGED, Rule, Rules

_CONSTANT = (
    ".spec.failurePolicy",
    ".spec.network",
    ".spec.replicatedJobs[].dependsOn",
    ".spec.startupPolicy",
    ".spec.successPolicy",
    ".spec.volumeClaimPolicies",
)

_RULES: Rules = {
    ".spec": [
        Rule(
            f"!has(self.startupPolicy) || self.startupPolicy.startupPolicyOrder != '{names.IN_ORDER}' || "
            "!self.replicatedJobs.exists(j, has(j.dependsOn))",
            "StartupPolicy and DependsOn APIs are mutually exclusive",
        )
    ],
    **{path: [Rule(UNCHANGED, "Value is immutable")] for path in _CONSTANT},
    ".spec.volumeClaimPolicies[]": [
        Rule(
            "self.templates.all(t, !has(t.metadata.namespace) || t.metadata.namespace == '')",
            "namespace cannot be set for VolumeClaimPolicies templates",
        )
    ],
}

# By `Kind.resource` and version.
JOB_SET: Final[Mapping[tuple[str, str], Rules]] = {(jobset.JOB_SET.resource, jobset.JOB_SET.version): _RULES}
