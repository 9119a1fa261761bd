"""`admissionregistration.k8s.io/v1`: webhooks that the server calls before it stores objects, and policies in CEL."""

from typing import Any

from muster.api.kinds import Kind
from muster.api.markers import Base64, Int32, Required
from muster.api.meta import Condition, LabelSelector, ObjectMeta, Struct

GROUP = "admissionregistration.k8s.io"


class ServiceReference(Struct):
    """A reference to the service of a webhook."""

    namespace: Required[str] = ""
    name: Required[str] = ""
    path: str | None = None
    port: Int32 | None = None


class WebhookClientConfig(Struct):
    """The address of a webhook: either a URL or a service."""

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: Base64 = b""


class RuleWithOperations(Struct):
    """A rule that matches requests by operation and resource."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str | None = None


class MatchCondition(Struct):
    """A condition on the content of a request."""

    name: Required[str] = ""
    expression: Required[str] = ""


class ValidatingWebhook(Struct):
    """A webhook that accepts or refuses requests."""

    name: Required[str] = ""
    client_config: Required[WebhookClientConfig] = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: Required[str | None] = None
    timeout_seconds: Int32 | None = None
    admission_review_versions: Required[tuple[str, ...]] = ()
    match_conditions: tuple[MatchCondition, ...] = ()


class MutatingWebhook(ValidatingWebhook):
    """A webhook that may also change the object."""

    reinvocation_policy: str | None = None


class MutatingWebhookConfiguration(Struct):
    """Webhooks that may change objects before they are stored. The server calls them one after the other."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[MutatingWebhook, ...] = ()


class ValidatingWebhookConfiguration(Struct):
    """Webhooks that may refuse objects before they are stored. The server calls all of them at once."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[ValidatingWebhook, ...] = ()


class NamedRuleWithOperations(RuleWithOperations):
    """A rule that matches requests by operation, resource and name of the object."""

    resource_names: tuple[str, ...] = ()


class MatchResources(Struct):
    """The requests to which a policy applies."""

    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    exclude_resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    match_policy: str | None = None


class ParamKind(Struct):
    """The kind of objects with the parameters of policies."""

    api_version: str = ""
    kind: str = ""


class ParamRef(Struct):
    """A reference to the objects with the parameters of a policy."""

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class Validation(Struct):
    """One rule of a policy."""

    expression: Required[str] = ""
    message: str = ""
    reason: str | None = None
    message_expression: str = ""


class AuditAnnotation(Struct):
    """A value for the audit log."""

    key: Required[str] = ""
    value_expression: Required[str] = ""


class Variable(Struct):
    """A value that expressions use as `variables.NAME`."""

    name: Required[str] = ""
    expression: Required[str] = ""


class ValidatingAdmissionPolicySpec(Struct):
    """The rules of a policy."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: tuple[Validation, ...] = ()
    failure_policy: str | None = None
    audit_annotations: tuple[AuditAnnotation, ...] = ()
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()


class ValidatingAdmissionPolicyStatus(Struct):
    """The observed state of a policy."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ValidatingAdmissionPolicy(Struct):
    """Rules in CEL that objects must meet. Bindings put them in force."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


class ValidatingAdmissionPolicyBindingSpec(Struct):
    """The scope of a policy, and its parameters."""

    policy_name: str = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: tuple[str, ...] = ()


class ValidatingAdmissionPolicyBinding(Struct):
    """A binding that puts a policy in force."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()


def _make_kind(type_: type[Any], plural: str) -> Kind[Any]:
    return Kind(GROUP, "v1", type_.__name__, plural, type_, namespaced=False)


MUTATING_WEBHOOK_CONFIGURATION: Kind[MutatingWebhookConfiguration] = _make_kind(
    MutatingWebhookConfiguration, "mutatingwebhookconfigurations"
)
VALIDATING_WEBHOOK_CONFIGURATION: Kind[ValidatingWebhookConfiguration] = _make_kind(
    ValidatingWebhookConfiguration, "validatingwebhookconfigurations"
)
VALIDATING_ADMISSION_POLICY: Kind[ValidatingAdmissionPolicy] = _make_kind(
    ValidatingAdmissionPolicy, "validatingadmissionpolicies"
)
VALIDATING_ADMISSION_POLICY_BINDING: Kind[ValidatingAdmissionPolicyBinding] = _make_kind(
    ValidatingAdmissionPolicyBinding, "validatingadmissionpolicybindings"
)
