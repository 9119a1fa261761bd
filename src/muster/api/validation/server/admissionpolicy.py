"""The rules of ValidatingAdmissionPolicies and their bindings (k8s.io/kubernetes/pkg/apis/admissionregistration)."""

from muster.api.server.admissionregistration import (
    MatchResources,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
)
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, duplicate, invalid, required, unsupported
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_label_selector
from muster.api.validation.server.webhooks import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    Compile,
    accept_expression,
    validate_match_conditions,
    validate_rule_with_operations,
)

_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")


def validate_create(policy: ValidatingAdmissionPolicy, compile: Compile = accept_expression) -> list[FieldError]:
    """Return the errors in a new policy with its defaults."""
    meta = new_metadata(policy.metadata, names.dns_subdomain, namespaced=False)
    return [*meta, *_validate_policy(policy.spec, compile)]


def validate_update(
    new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy, compile: Compile = accept_expression
) -> list[FieldError]:
    """Return the errors in a change of a policy."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_policy(new.spec, compile)]


def validate_binding_create(binding: ValidatingAdmissionPolicyBinding) -> list[FieldError]:
    """Return the errors in a new binding with its defaults."""
    meta = new_metadata(binding.metadata, names.dns_subdomain, namespaced=False)
    return [*meta, *_validate_binding(binding.spec)]


def validate_binding_update(
    new: ValidatingAdmissionPolicyBinding, old: ValidatingAdmissionPolicyBinding
) -> list[FieldError]:
    """Return the errors in a change of a binding."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_binding(new.spec)]


def _validate_policy(spec: ValidatingAdmissionPolicySpec, compile: Compile) -> Errors:
    if spec.failure_policy is not None and spec.failure_policy not in FAILURE_POLICIES:
        yield unsupported("spec.failurePolicy", spec.failure_policy, FAILURE_POLICIES)
    if spec.param_kind is not None:
        for field, value in (("apiVersion", spec.param_kind.api_version), ("kind", spec.param_kind.kind)):
            if not value:
                yield required(f"spec.paramKind.{field}")
    if spec.match_constraints is None:
        yield required("spec.matchConstraints")
    else:
        if not spec.match_constraints.resource_rules:
            yield required("spec.matchConstraints.resourceRules")
        yield from _validate_match("spec.matchConstraints", spec.match_constraints)
    yield from validate_match_conditions("spec.matchConditions", spec.match_conditions, compile)
    if not spec.validations and not spec.audit_annotations:
        yield required("spec.validations", "validations or auditAnnotations must be specified")
    yield from _validate_expressions(spec, compile)


def _validate_expressions(spec: ValidatingAdmissionPolicySpec, compile: Compile) -> Errors:
    for i, validation in enumerate(spec.validations):
        if not validation.expression.strip():
            yield required(f"spec.validations[{i}].expression", "expression is not specified")
        elif why := compile(validation.expression):
            yield invalid(f"spec.validations[{i}].expression", validation.expression, why)
        if validation.message_expression and (why := compile(validation.message_expression)):
            yield invalid(f"spec.validations[{i}].messageExpression", validation.message_expression, why)
        if validation.reason is not None and validation.reason not in _REASONS:
            yield unsupported(f"spec.validations[{i}].reason", validation.reason, _REASONS)
    seen: set[str] = set()
    for i, variable in enumerate(spec.variables):
        if not variable.name:
            yield required(f"spec.variables[{i}].name", "name is not specified")
        elif variable.name in seen:
            yield duplicate(f"spec.variables[{i}].name", variable.name)
        seen.add(variable.name)
        if not variable.expression.strip():
            yield required(f"spec.variables[{i}].expression", "expression is not specified")
        elif why := compile(variable.expression):
            yield invalid(f"spec.variables[{i}].expression", variable.expression, why)


def _validate_match(path: str, match: MatchResources) -> Errors:
    if match.match_policy is not None and match.match_policy not in MATCH_POLICIES:
        yield unsupported(f"{path}.matchPolicy", match.match_policy, MATCH_POLICIES)
    yield from validate_label_selector(f"{path}.namespaceSelector", match.namespace_selector)
    yield from validate_label_selector(f"{path}.objectSelector", match.object_selector)
    for field, rules in (
        ("resourceRules", match.resource_rules),
        ("excludeResourceRules", match.exclude_resource_rules),
    ):
        for i, rule in enumerate(rules):
            yield from validate_rule_with_operations(f"{path}.{field}[{i}]", rule)


def _validate_binding(spec: ValidatingAdmissionPolicyBindingSpec) -> Errors:
    if not spec.policy_name:
        yield required("spec.policyName")
    parameters = spec.param_ref
    if parameters is not None:
        if bool(parameters.name) == (parameters.selector is not None):
            yield required("spec.paramRef.name", "one of name or selector must be specified")
        if parameters.parameter_not_found_action is None:
            yield required("spec.paramRef.parameterNotFoundAction")
    if spec.match_resources is not None:
        yield from _validate_match("spec.matchResources", spec.match_resources)
    if not spec.validation_actions:
        yield required("spec.validationActions", "at least one validation action is required")
    for i, action in enumerate(spec.validation_actions):
        if action not in _ACTIONS:
            yield unsupported(f"spec.validationActions[{i}]", action, _ACTIONS)
        elif action in spec.validation_actions[:i]:
            yield duplicate(f"spec.validationActions[{i}]", action)
    if {"Deny", "Warn"} <= set(spec.validation_actions):
        sentence = "must not contain both Deny and Warn (repeating the same validation failure information)"
        yield invalid("spec.validationActions", spec.validation_actions, sentence)
