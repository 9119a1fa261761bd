"""The rules of a Job's policies for failed pods and for success."""

from collections.abc import Collection, Sequence

from muster.api.batch import (
    INDEXED,
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from muster.api.status import NO_VALUE
from muster.api.validation import indexes, names
from muster.api.validation.fields import (
    Errors,
    duplicate,
    invalid,
    make_errors,
    required,
    too_long,
    too_many,
    unsupported,
    validate_not_negative,
)

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_FAILURE_RULES = 20
_MAX_EXIT_CODES = 255
_MAX_PATTERNS = 20
_MAX_SUCCESS_RULES = 20
_MAX_INDEXES_BYTES = 64 * 1024


def validate_pod_failure_policy(path: str, spec: JobSpec) -> Errors:
    """Yield the errors in the podFailurePolicy."""
    policy = spec.pod_failure_policy
    if policy is None:
        return
    if len(policy.rules) > _MAX_FAILURE_RULES:
        yield too_many(f"{path}.rules", len(policy.rules), _MAX_FAILURE_RULES)
    pod = spec.template.spec
    containers = {container.name for container in (*pod.containers, *pod.init_containers)}
    for i, rule in enumerate(policy.rules):
        yield from _validate_failure_rule(f"{path}.rules[{i}]", rule, spec, containers)


def validate_success_policy(path: str, spec: JobSpec) -> Errors:
    """Yield the errors in the successPolicy."""
    policy = spec.success_policy
    if policy is None:
        return
    if spec.completion_mode != INDEXED:
        yield invalid(path, policy, "requires indexed completion mode")
        return
    if not policy.rules:
        sentence = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", sentence)
    if len(policy.rules) > _MAX_SUCCESS_RULES:
        yield too_many(f"{path}.rules", len(policy.rules), _MAX_SUCCESS_RULES)
    if spec.completions is None:
        return  # another rule refuses this Job
    for i, rule in enumerate(policy.rules):
        yield from _validate_success_rule(f"{path}.rules[{i}]", rule, spec.completions)


def _validate_failure_rule(path: str, rule: PodFailurePolicyRule, spec: JobSpec, containers: Collection[str]) -> Errors:
    if rule.action == "FailIndex":
        if spec.backoff_limit_per_index is None:
            yield invalid(f"{path}.action", rule.action, "requires the backoffLimitPerIndex to be set")
    else:
        yield from _validate_choice(f"{path}.action", rule.action, _ACTIONS)
    if rule.on_exit_codes is not None:
        yield from _validate_exit_codes(f"{path}.onExitCodes", rule.on_exit_codes, containers)
    if rule.on_pod_conditions:
        yield from _validate_conditions(f"{path}.onPodConditions", rule.on_pod_conditions)
        if rule.on_exit_codes is not None:
            yield invalid(path, NO_VALUE, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif rule.on_exit_codes is None:
        yield invalid(path, NO_VALUE, "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_choice(path: str, value: str, words: Sequence[str]) -> Errors:
    if not value:
        listed = " ".join(f'"{word}"' for word in words)
        yield required(path, f"valid values: [{listed}]")
    elif value not in words:
        yield unsupported(path, value, words)


def _validate_exit_codes(
    path: str, codes: PodFailurePolicyOnExitCodesRequirement, containers: Collection[str]
) -> Errors:
    yield from _validate_choice(f"{path}.operator", codes.operator, _OPERATORS)
    if codes.container_name is not None and codes.container_name not in containers:
        sentence = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", codes.container_name, sentence)
    values = codes.values
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MAX_EXIT_CODES:
        yield too_many(f"{path}.values", len(values), _MAX_EXIT_CODES)
    seen: set[int] = set()
    for i, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            yield invalid(f"{path}.values[{i}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{path}.values[{i}]", value)
        seen.add(value)
    if tuple(sorted(values)) != values:
        yield invalid(f"{path}.values", values, "must be ordered")


def _validate_conditions(path: str, patterns: tuple[PodFailurePolicyOnPodConditionsPattern, ...]) -> Errors:
    if len(patterns) > _MAX_PATTERNS:
        yield too_many(path, len(patterns), _MAX_PATTERNS)
    for i, pattern in enumerate(patterns):
        yield from make_errors(f"{path}[{i}].type", pattern.type, names.label_key(pattern.type))
        yield from _validate_choice(f"{path}[{i}].status", pattern.status, _STATUSES)


def _validate_success_rule(path: str, rule: SuccessPolicyRule, completions: int) -> Errors:
    text, count = rule.succeeded_indexes, rule.succeeded_count
    if text is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if text is not None:
        if len(text.encode()) > _MAX_INDEXES_BYTES:
            yield too_long(f"{path}.succeededIndexes", _MAX_INDEXES_BYTES)
        try:
            total = indexes.count(text, completions)
        except indexes.IndexesError as error:
            yield invalid(f"{path}.succeededIndexes", text, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    yield from validate_not_negative(f"{path}.succeededCount", count)
    if count > completions:
        sentence = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid(f"{path}.succeededCount", count, sentence)
    if text is not None and count > total:
        what = "the number of indexes in the specified succeededIndexes field"
        yield invalid(f"{path}.succeededCount", count, f"must be less than or equal to {total} ({what})")
