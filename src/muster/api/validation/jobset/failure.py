"""The rules of the failure policy."""

import re
from collections.abc import Sequence

from muster.api.jobset import FailurePolicy, FailurePolicyRule, ReplicatedJob, names
from muster.api.validation.fields import Errors, invalid, too_long
from muster.api.values.patterns import PatternError, compile_pattern

_ACTIONS_OF_ONE_JOB = (names.RESTART_JOB, names.RESTART_JOB_IGNORING_MAX)
_MAX_REPLICAS = 1024  # the most Jobs of a role whose individual restarts the status counts
_MAX_NAME = 128
_MAX_PATTERN_BYTES = 4096  # more than the most bytes of a Job's message
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)


def validate_failure_policy(path: str, policy: FailurePolicy, roles: Sequence[ReplicatedJob]) -> Errors:
    """Yield the errors in the failure policy of a JobSet."""
    if any(rule.action in _ACTIONS_OF_ONE_JOB for rule in policy.rules):
        yield from _validate_restarted_alone(roles)
    known = {role.name for role in roles}
    by_name: dict[str, list[int]] = {}
    for i, rule in enumerate(policy.rules):
        by_name.setdefault(rule.name, []).append(i)
        yield from _validate_rule(f"{path}.rules[{i}]", rule, known)
    for name, indices in by_name.items():
        if len(indices) > 1:
            listed = " ".join(map(str, indices))
            sentence = f"rule names are not unique, rules with indices [{listed}] all have the same name '{name}'"
            yield invalid(f"{path}.rules[{indices[1]}].name", name, sentence)


def _validate_restarted_alone(roles: Sequence[ReplicatedJob]) -> Errors:
    for i, role in enumerate(roles):
        if role.replicas > _MAX_REPLICAS:
            sentence = (
                "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action and "
                f"a replicated job with replicas > {_MAX_REPLICAS}"
            )
            yield invalid(f"spec.replicatedJobs[{i}].replicas", role.replicas, sentence)
            return


def _validate_rule(path: str, rule: FailurePolicyRule, roles: set[str]) -> Errors:
    length = len(rule.name.encode())
    if not 1 <= length <= _MAX_NAME:
        sentence = (
            f"invalid failure policy rule name of length {length}, the rule name must be at least 1 characters long "
            f"and at most {_MAX_NAME} characters long"
        )
        yield invalid(f"{path}.name", rule.name, sentence)
    if not _NAME.fullmatch(rule.name):
        sentence = (
            f"invalid failure policy rule name '{rule.name}', a failure policy rule name must start with an alphabetic "
            "character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an "
            "alphanumeric character or '_'"
        )
        yield invalid(f"{path}.name", rule.name, sentence)
    for i, role in enumerate(rule.target_replicated_jobs):
        if role not in roles:
            sentence = f"invalid replicatedJob name '{role}' in failure policy does not appear in .spec.ReplicatedJobs"
            yield invalid(f"{path}.targetReplicatedJobs[{i}]", role, sentence)
    for i, reason in enumerate(rule.on_job_failure_reasons):
        if reason not in _REASONS:
            sentence = f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
            yield invalid(f"{path}.onJobFailureReasons[{i}]", reason, sentence)
    for i, pattern in enumerate(rule.on_job_failure_message_patterns):
        yield from _validate_pattern(f"{path}.onJobFailureMessagePatterns[{i}]", pattern)


def _validate_pattern(path: str, pattern: str) -> Errors:
    """Check the pattern. Upstream finds an invalid one only when a Job fails, and then skips it."""
    if len(pattern.encode()) > _MAX_PATTERN_BYTES:
        yield too_long(path, _MAX_PATTERN_BYTES)
        return
    try:
        compile_pattern(pattern)
    except PatternError as error:
        yield invalid(path, pattern, f"must be a valid regular expression (RE2): {error}")
