"""`admissionregistration.k8s.io/v1`: who else is asked before an object is stored, and policies written in CEL."""

from typing import Annotated, Any

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, SET, Base64, Int32, Required, Strings, map_by, merged_by, one_of
from muster.api.meta import Condition, LabelSelector, ObjectMeta, Struct

GROUP = "admissionregistration.k8s.io"

_FailurePolicy = Annotated[str, one_of("Fail", "Ignore")]
_MatchPolicy = Annotated[str, one_of("Equivalent", "Exact")]


class ServiceReference(Struct):
    """A service that answers.

    namespace: namespace of the service.
    name: name of the service.
    path: URL path that is asked.
    port: port of the service; 443 if absent.
    """

    namespace: Required[str] = ""
    name: Required[str] = ""
    path: str | None = None
    port: Int32 | None = None


class WebhookClientConfig(Struct):
    """Where a webhook is: either a URL or a service.

    url: https address of the webhook.
    service: service behind which the webhook is.
    ca_bundle: certificates (PEM) that its own is checked against; the system's if absent.
    """

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: Base64 = b""


class RuleWithOperations(Struct):
    """Requests: which operations on which resources.

    operations: CREATE, UPDATE, DELETE, CONNECT, or * for all of them.
    api_groups: groups of the resources; * for all of them.
    api_versions: versions of the resources; * for all of them.
    resources: plurals, with subresources behind a slash; * for all of either.
    scope: Cluster, Namespaced, or * for both.
    """

    operations: Strings = ()
    api_groups: Strings = ()
    api_versions: Strings = ()
    resources: Strings = ()
    scope: Annotated[str, one_of("*", "Cluster", "Namespaced")] | None = None


class MatchCondition(Struct):
    """One more condition, on the content of a request.

    name: what it is called in logs.
    expression: CEL over object, oldObject, request and authorizer that yields a truth value.
    """

    name: Required[str] = ""
    expression: Required[str] = ""


class ValidatingWebhook(Struct):
    """A webhook that only says yes or no.

    name: a domain name with at least three parts.
    client_config: where it is.
    rules: which requests it is asked about.
    failure_policy: what happens if it cannot be asked: Fail (the request is refused) or Ignore.
    match_policy: whether a rule also means the same objects in other versions: Equivalent or Exact.
    namespace_selector: asked about objects in namespaces with these labels only.
    object_selector: asked about objects with these labels only.
    side_effects: whether asking it changes anything elsewhere: None, or NoneOnDryRun.
    timeout_seconds: how long it may take, 1 to 30 seconds.
    admission_review_versions: versions of AdmissionReview that it understands, the preferred one first.
    match_conditions: further conditions; all must hold.
    """

    name: Required[str] = ""
    client_config: Required[WebhookClientConfig] = WebhookClientConfig()
    rules: Annotated[tuple[RuleWithOperations, ...], ATOMIC] = ()
    failure_policy: _FailurePolicy | None = None
    match_policy: _MatchPolicy | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: Annotated[Required[str | None], one_of("None", "NoneOnDryRun", "Some", "Unknown")] = None
    timeout_seconds: Int32 | None = None
    admission_review_versions: Required[Strings] = ()
    match_conditions: Annotated[tuple[MatchCondition, ...], merged_by("name")] = ()


class MutatingWebhook(ValidatingWebhook):
    """A webhook that may also change the object.

    name: a domain name with at least three parts.
    client_config: where it is.
    rules: which requests it is asked about.
    failure_policy: what happens if it cannot be asked: Fail (the request is refused) or Ignore.
    match_policy: whether a rule also means the same objects in other versions: Equivalent or Exact.
    namespace_selector: asked about objects in namespaces with these labels only.
    object_selector: asked about objects with these labels only.
    side_effects: whether asking it changes anything elsewhere: None, or NoneOnDryRun.
    timeout_seconds: how long it may take, 1 to 30 seconds.
    admission_review_versions: versions of AdmissionReview that it understands, the preferred one first.
    reinvocation_policy: whether it is asked again if others change the object after it: Never or IfNeeded.
    match_conditions: further conditions; all must hold.
    """

    reinvocation_policy: Annotated[str, one_of("IfNeeded", "Never")] | None = None


class MutatingWebhookConfiguration(Struct):
    """Webhooks that may change objects before they are stored, asked one after the other.

    metadata: what every object carries.
    webhooks: the webhooks, in the order in which they are asked.
    """

    metadata: ObjectMeta = ObjectMeta()
    webhooks: Annotated[tuple[MutatingWebhook, ...], merged_by("name")] = ()


class ValidatingWebhookConfiguration(Struct):
    """Webhooks that may refuse objects before they are stored, asked all at once.

    metadata: what every object carries.
    webhooks: the webhooks.
    """

    metadata: ObjectMeta = ObjectMeta()
    webhooks: Annotated[tuple[ValidatingWebhook, ...], merged_by("name")] = ()


class NamedRuleWithOperations(RuleWithOperations):
    """Requests: which operations on which resources, and on which objects by name.

    operations: CREATE, UPDATE, DELETE, CONNECT, or * for all of them.
    api_groups: groups of the resources; * for all of them.
    api_versions: versions of the resources; * for all of them.
    resources: plurals, with subresources behind a slash; * for all of either.
    scope: Cluster, Namespaced, or * for both.
    resource_names: names of the objects; all of them if empty.
    """

    resource_names: Strings = ()


class MatchResources(Struct):
    """Which requests a policy is about.

    namespace_selector: objects in namespaces with these labels.
    object_selector: objects with these labels.
    resource_rules: requests that are meant.
    exclude_resource_rules: requests that are not, although they are meant above.
    match_policy: whether a rule also means the same objects in other versions: Equivalent or Exact.
    """

    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: Annotated[tuple[NamedRuleWithOperations, ...], ATOMIC] = ()
    exclude_resource_rules: Annotated[tuple[NamedRuleWithOperations, ...], ATOMIC] = ()
    match_policy: _MatchPolicy | None = None


class ParamKind(Struct):
    """A kind of objects that policies take their parameters from.

    api_version: group and version of the kind.
    kind: the kind.
    """

    api_version: str = ""
    kind: str = ""


class ParamRef(Struct):
    """The objects that hold the parameters of a policy.

    name: name of the object; no selector then.
    namespace: where the objects are; the request's own namespace if empty.
    selector: labels of the objects; no name then.
    parameter_not_found_action: what it means if there is none: Allow or Deny.
    """

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: Annotated[str, one_of("Allow", "Deny")] | None = None


class Validation(Struct):
    """One rule of a policy.

    expression: CEL over object, oldObject, request, params, namespaceObject, variables and authorizer; true is well.
    message: what is said if it is not.
    reason: Unauthorized, Forbidden, Invalid or RequestEntityTooLarge; Invalid if absent.
    message_expression: CEL that yields what is said.
    """

    expression: Required[str] = ""
    message: str = ""
    reason: str | None = None
    message_expression: str = ""


class AuditAnnotation(Struct):
    """A value for the audit log.

    key: what it is called there, behind the policy's name.
    value_expression: CEL that yields the text; null leaves it out.
    """

    key: Required[str] = ""
    value_expression: Required[str] = ""


class Variable(Struct):
    """A value that expressions know as `variables.NAME`.

    name: a CEL identifier.
    expression: CEL that yields it.
    """

    name: Required[str] = ""
    expression: Required[str] = ""


class ValidatingAdmissionPolicySpec(Struct):
    """The rules of a policy.

    param_kind: where its parameters come from, if it has any.
    match_constraints: requests that the policy can be about.
    validations: rules that objects must meet.
    failure_policy: what an error in an expression means: Fail or Ignore.
    audit_annotations: values for the audit log.
    match_conditions: further conditions on requests; all must hold.
    variables: values that expressions may use.
    """

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: Annotated[tuple[Validation, ...], ATOMIC] = ()
    failure_policy: _FailurePolicy | None = None
    audit_annotations: Annotated[tuple[AuditAnnotation, ...], ATOMIC] = ()
    match_conditions: Annotated[tuple[MatchCondition, ...], merged_by("name")] = ()
    variables: Annotated[tuple[Variable, ...], merged_by("name")] = ()


class ExpressionWarning(Struct):
    """Something doubtful in an expression.

    field_ref: path of the expression.
    warning: what is doubtful.
    """

    field_ref: Required[str] = ""
    warning: Required[str] = ""


class TypeChecking(Struct):
    """What was found in expressions.

    expression_warnings: the findings.
    """

    expression_warnings: Annotated[tuple[ExpressionWarning, ...], ATOMIC] = ()


class ValidatingAdmissionPolicyStatus(Struct):
    """What was observed of a policy.

    observed_generation: the generation that was looked at.
    type_checking: what was found in its expressions.
    conditions: observed aspects.
    """

    observed_generation: int = 0
    type_checking: TypeChecking | None = None
    conditions: Annotated[tuple[Condition, ...], map_by("type")] = ()


class ValidatingAdmissionPolicy(Struct):
    """Rules in CEL that objects must meet, in force where a binding says so.

    metadata: what every object carries.
    spec: the rules.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


class ValidatingAdmissionPolicyBindingSpec(Struct):
    """Where a policy is in force, with which parameters.

    policy_name: the policy.
    param_ref: its parameters.
    match_resources: requests it is in force for, of those that it can be about; all of them if absent.
    validation_actions: what follows from a broken rule: Deny, Warn, Audit.
    """

    policy_name: str = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: Annotated[tuple[Annotated[str, one_of("Audit", "Deny", "Warn")], ...], SET] = ()


class ValidatingAdmissionPolicyBinding(Struct):
    """Puts a policy in force.

    metadata: what every object carries.
    spec: where, with which parameters.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()


def _kind(type_: type[Any], plural: str) -> Kind[Any]:
    return Kind(GROUP, "v1", type_.__name__, plural, type_, namespaced=False)


MUTATING_WEBHOOK_CONFIGURATION: Kind[MutatingWebhookConfiguration] = _kind(
    MutatingWebhookConfiguration, "mutatingwebhookconfigurations"
)
VALIDATING_WEBHOOK_CONFIGURATION: Kind[ValidatingWebhookConfiguration] = _kind(
    ValidatingWebhookConfiguration, "validatingwebhookconfigurations"
)
VALIDATING_ADMISSION_POLICY: Kind[ValidatingAdmissionPolicy] = _kind(
    ValidatingAdmissionPolicy, "validatingadmissionpolicies"
)
VALIDATING_ADMISSION_POLICY_BINDING: Kind[ValidatingAdmissionPolicyBinding] = _kind(
    ValidatingAdmissionPolicyBinding, "validatingadmissionpolicybindings"
)
