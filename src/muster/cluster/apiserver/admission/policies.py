"""Validate writes by ValidatingAdmissionPolicies: rules in CEL, which apply where a binding says so.

The policies are evaluated before the validating webhooks are called, with upstream's rules:

- The failure policy decides whether an error in an expression refuses the write.
- A binding with only `Warn` warns and does not refuse.
- A policy is evaluated once for each parameter object that the binding selects.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct, field

from muster.api.core import NAMESPACE
from muster.api.meta import LabelSelector
from muster.api.server.admissionregistration import (
    GROUP,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    MatchResources,
    NamedRuleWithOperations,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
)
from muster.api.status import ApiError, Status, StatusCause, StatusDetails
from muster.api.values.selectors import label_matcher
from muster.cluster.apiserver.admission.chain import Webhooks, WriteAttempt
from muster.cluster.apiserver.admission.webhooks import review
from muster.cluster.apiserver.admission.webhooks.matching import labels_of, rule_matches
from muster.cluster.apiserver.cel import (
    CelError,
    ConditionError,
    CostLimitError,
    all_hold,
    compile_condition,
    make_sentence,
)
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.resources import Registry, Resource
from muster.cluster.store import Entry, Key, Store

VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")

_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_NO_PARAMS = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"

_ALL = LabelSelector()

_Values = Mapping[str, Any]


class _FailedError(Exception):
    """A policy that cannot be evaluated. The message says why."""


class _InForce(Struct, frozen=True):
    """A ValidatingAdmissionPolicy, and one of its bindings."""

    policy: ValidatingAdmissionPolicy
    binding: ValidatingAdmissionPolicyBinding

    @property
    def names(self) -> str:
        return f"ValidatingAdmissionPolicy '{self.policy.metadata.name}' with binding '{self.binding.metadata.name}'"


class _Case(NamedTuple):
    """The input of a policy: the new and the old object in the writer's version, and their namespace."""

    new: Document | None
    old: Document | None
    namespace: Document | None


class _Denial(Struct, frozen=True):
    """A violation of one validation: the message, and the reason that decides the HTTP code."""

    message: str
    reason: str


class _Bound(Struct):
    """The pairs of policy and binding in the store, cached until a policy or binding changes."""

    policies: Sequence[Entry] = ()
    bindings: Sequence[Entry] = ()
    found: Sequence[_InForce] = field(default_factory=tuple)

    def read(self, store: Store) -> Sequence[_InForce]:
        bindings = store.list(VALIDATING_ADMISSION_POLICY_BINDING.resource).entries
        policies = store.list(VALIDATING_ADMISSION_POLICY.resource).entries if bindings else ()
        if bindings != self.bindings or policies != self.policies:
            self.bindings, self.policies = bindings, policies
            by_name = {entry.key.name: VALIDATING_ADMISSION_POLICY.decode(entry.body) for entry in policies}
            decoded = [VALIDATING_ADMISSION_POLICY_BINDING.decode(entry.body) for entry in bindings]
            pairs = [(by_name.get(binding.spec.policy_name), binding) for binding in decoded]
            self.found = [_InForce(policy, binding) for policy, binding in pairs if policy is not None]
        return self.found


class PolicyJudge:
    """A `chain.Webhooks` that evaluates the policies in the store, and then calls the webhooks."""

    def __init__(self, store: Store, registry: Registry, webhooks: Webhooks) -> None:
        self._store = store
        self._registry = registry
        self._webhooks = webhooks
        self._bound = _Bound()

    async def change(self, attempt: WriteAttempt, warnings: list[str]) -> bool:
        """Call the mutating webhooks; the policies change nothing."""
        return await self._webhooks.change(attempt, warnings)

    async def judge(self, attempt: WriteAttempt, warnings: list[str]) -> None:
        """Raise `ApiError` if a policy or a webhook refuses the write."""
        in_force = self._bound.read(self._store)
        if in_force and attempt.resource.kind.group != GROUP:
            self._ask(in_force, attempt, warnings)
        await self._webhooks.judge(attempt, warnings)

    def _ask(self, in_force: Sequence[_InForce], attempt: WriteAttempt, warnings: list[str]) -> None:
        refused: ApiError | None = None
        case = self._make_case(attempt)
        for each in in_force:
            for denial in self._list_denials(each, attempt, case):
                actions = each.binding.spec.validation_actions
                if "Warn" in actions:
                    warnings.append(f"Validation failed for {each.names}: {denial.message}")
                if "Deny" in actions and refused is None:
                    refused = _make_refusal(attempt, f"{each.names} denied request: {denial.message}", denial.reason)
        if refused is not None:
            raise refused

    def _make_case(self, attempt: WriteAttempt) -> _Case:
        show = attempt.view.show
        new, old = (each if each is None or show is None else show(each) for each in attempt.objects)
        entry = self._store.latest(Key(NAMESPACE.resource, "", attempt.namespace)) if attempt.namespace else None
        return _Case(new, old, None if entry is None else msgspec.json.decode(entry.body))

    def _list_denials(self, each: _InForce, attempt: WriteAttempt, case: _Case) -> Iterator[_Denial]:
        for match in (each.policy.spec.match_constraints, each.binding.spec.match_resources):
            if match is not None and not self._matches(match, attempt, case):
                return
        new, old, namespace = case
        question = review.make_review(attempt, attempt.resource, attempt.view, new, old, "", "v1")
        values = {"object": new, "oldObject": old, "request": question["request"], "namespaceObject": namespace}
        try:
            for params in self._list_params(each, attempt):
                yield from _find_violations(each.policy, {**values, "params": params})
        except (_FailedError, ConditionError) as error:
            if each.policy.spec.failure_policy != "Ignore":
                yield _Denial(str(error), "Invalid")

    def _matches(self, match: MatchResources, attempt: WriteAttempt, case: _Case) -> bool:
        resources = [attempt.resource]
        if match.match_policy != "Exact":
            resources += [each for each in self._registry if each.key == attempt.resource.key]
        if match.resource_rules and not _matches_any(match.resource_rules, resources, attempt):
            return False
        if _matches_any(match.exclude_resource_rules, resources, attempt):
            return False
        inside = case.new if attempt.resource.key == NAMESPACE.resource else case.namespace
        if inside is not None and not label_matcher(match.namespace_selector or _ALL).matches(labels_of(inside)):
            return False
        objects = label_matcher(match.object_selector or _ALL)
        return any(document is not None and objects.matches(labels_of(document)) for document in (case.new, case.old))

    def _list_params(self, each: _InForce, attempt: WriteAttempt) -> Sequence[Document | None]:
        """Return the parameters to evaluate a policy with; `[None]` if it takes none. Raises `_FailedError`."""
        kind, reference = each.policy.spec.param_kind, each.binding.spec.param_ref
        if kind is None or reference is None:
            return [None]
        params = self._find_params(kind, reference, attempt)
        if not params and reference.parameter_not_found_action == "Deny":
            raise _FailedError(_NO_PARAMS)
        return params

    def _find_params(self, kind: ParamKind, reference: ParamRef, attempt: WriteAttempt) -> Sequence[Document]:
        resource = self._registry.of_kind(kind.api_version, kind.kind)
        if resource is None:
            raise _FailedError(f"failed to find resource for param kind {kind.api_version}, Kind={kind.kind}")
        namespace = (reference.namespace or attempt.namespace) if resource.kind.namespaced else ""
        if reference.name:
            one = self._store.latest(Key(resource.key, namespace, reference.name))
            return [] if one is None else [msgspec.json.decode(one.body)]
        selector = label_matcher(reference.selector)
        entries = self._store.list(resource.key, namespace).entries
        return [msgspec.json.decode(each.body) for each in entries if selector.matches(each.header.labels)]


class _Variables(dict[str, Any]):
    """The variables of a policy. Each is evaluated when an expression first reads it."""

    cel_name: ClassVar[str] = "map"

    def __init__(self, policy: ValidatingAdmissionPolicy, values: _Values) -> None:
        super().__init__()
        self._expressions = {each.name: each.expression for each in policy.spec.variables}
        self._values = values

    def __missing__(self, name: str) -> Any:
        text = self._expressions.pop(name)  # popped first, so that a variable that reads itself fails
        self[name] = compile_condition(text, VARIABLES)({**self._values, "variables": self})
        return self[name]


def _find_violations(policy: ValidatingAdmissionPolicy, values: _Values) -> Iterator[_Denial]:
    """Yield a denial for each validation that does not hold; none if the policy's match conditions do not hold.

    A validation whose evaluation fails also yields one, unless the policy ignores failures. Raises `ConditionError`.
    """
    if not all_hold((each.expression for each in policy.spec.match_conditions), VARIABLES, values):
        return
    values = {**values, "variables": _Variables(policy, values)}
    for validation in policy.spec.validations:
        try:
            holds = _evaluate(validation.expression, values)
        except ValueError as error:
            if policy.spec.failure_policy != "Ignore":
                yield _Denial(f"expression '{validation.expression}' resulted in error: {error}", "Invalid")
            continue
        if holds is not True:
            yield _Denial(_make_message(validation, values), validation.reason or "Invalid")


def _make_message(validation: Validation, values: _Values) -> str:
    if validation.message_expression:
        # If the message expression fails, the message below names the rule.
        with suppress(ValueError):
            if text := make_sentence(_evaluate(validation.message_expression, values)):
                return text
    return validation.message.strip() or f"failed expression: {validation.expression.strip()}"


def _evaluate(text: str, values: _Values) -> Any:
    """Return the value of an expression. Raises `ValueError` if its evaluation fails."""
    try:
        return compile_condition(text, VARIABLES)(values)
    except (CelError, CostLimitError) as error:
        raise ValueError(str(error)) from None


def _matches_any(
    rules: Sequence[NamedRuleWithOperations], resources: Sequence[Resource], attempt: WriteAttempt
) -> bool:
    return any(
        rule_matches(rule, resource, attempt.subresource, attempt.operation)
        and (not rule.resource_names or attempt.name in rule.resource_names)
        for rule in rules
        for resource in resources
    )


def _make_refusal(attempt: WriteAttempt, message: str, reason: str) -> ApiError:
    kind, name = attempt.resource.kind, attempt.resource.name
    details = StatusDetails(
        name=attempt.name, group=kind.group, kind=kind.plural, causes=(StatusCause(message=message),)
    )
    text = f'{name} "{attempt.name}" is forbidden: {message}'
    code = _CODES.get(reason, 422)
    return ApiError(Status(status="Failure", code=code, reason=reason, message=text, details=details))
