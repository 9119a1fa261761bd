"""The rules of webhook configurations (k8s.io/kubernetes/pkg/apis/admissionregistration/validation)."""

from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from muster.api.server.admissionregistration import (
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import (
    Errors,
    duplicate,
    invalid,
    make_errors,
    required,
    too_many,
    unsupported,
)
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_label_selector

Configuration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration

OPERATIONS = ("CONNECT", "CREATE", "DELETE", "UPDATE", "*")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
SCOPES = ("*", "Cluster", "Namespaced")
REVIEW_VERSIONS = ("v1", "v1beta1")
MAX_MATCH_CONDITIONS = 64

# Returns why an expression is invalid, or "" if it is valid. The caller passes it, because this package has no CEL.
Compile = Callable[[str], str]


def accept_expression(expression: str) -> str:  # noqa: ARG001  (one of many of this shape)
    """Return "", for no error: the default for servers that do not compile CEL expressions."""
    return ""


def validate_create(configuration: Configuration, compile: Compile = accept_expression) -> list[FieldError]:
    """Return the errors in a new configuration with its defaults."""
    meta = new_metadata(configuration.metadata, names.dns_subdomain, namespaced=False)
    return [*meta, *_validate_webhooks(configuration.webhooks, compile)]


def validate_update(new: Configuration, old: Configuration, compile: Compile = accept_expression) -> list[FieldError]:
    """Return the errors in a change of a configuration."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_webhooks(new.webhooks, compile)]


def _validate_webhooks(webhooks: Sequence[ValidatingWebhook], compile: Compile) -> Errors:
    seen: set[str] = set()
    for i, webhook in enumerate(webhooks):
        path = f"webhooks[{i}]"
        yield from _validate_webhook(path, webhook)
        yield from validate_match_conditions(f"{path}.matchConditions", webhook.match_conditions, compile)
        if webhook.name in seen:
            yield duplicate(f"{path}.name", webhook.name)
        seen.add(webhook.name)


def _validate_webhook(path: str, webhook: ValidatingWebhook) -> Errors:
    yield from _validate_qualified_name(f"{path}.name", webhook.name)
    for i, rule in enumerate(webhook.rules):
        yield from validate_rule_with_operations(f"{path}.rules[{i}]", rule)
    yield from _validate_choice(f"{path}.failurePolicy", webhook.failure_policy, FAILURE_POLICIES)
    yield from _validate_choice(f"{path}.matchPolicy", webhook.match_policy, MATCH_POLICIES)
    if webhook.side_effects is None:
        yield required(f"{path}.sideEffects", 'must specify one of "None", "NoneOnDryRun"')
    else:
        yield from _validate_choice(f"{path}.sideEffects", webhook.side_effects, ("None", "NoneOnDryRun"))
    if webhook.timeout_seconds is not None and not 1 <= webhook.timeout_seconds <= 30:
        yield invalid(
            f"{path}.timeoutSeconds", webhook.timeout_seconds, "the timeout value must be between 1 and 30 seconds"
        )
    yield from validate_label_selector(f"{path}.namespaceSelector", webhook.namespace_selector)
    yield from validate_label_selector(f"{path}.objectSelector", webhook.object_selector)
    if isinstance(webhook, MutatingWebhook):
        yield from _validate_choice(f"{path}.reinvocationPolicy", webhook.reinvocation_policy, ("IfNeeded", "Never"))
    yield from validate_client_config(f"{path}.clientConfig", webhook.client_config)
    yield from validate_review_versions(f"{path}.admissionReviewVersions", webhook.admission_review_versions)


def _validate_choice(path: str, value: str | None, values: Iterable[str]) -> Errors:
    if value is not None and value not in tuple(values):
        yield unsupported(path, value, values)


def _validate_qualified_name(path: str, name: str) -> Errors:
    if not name:
        yield required(path)
        return
    messages = names.dns_subdomain(name)
    yield from make_errors(path, name, messages)
    if not messages and len(name.split(".")) < 3:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def validate_review_versions(path: str, versions: Sequence[str]) -> Errors:
    """Yield the errors in `admissionReviewVersions`: at least one must be a version that the server can send."""
    if not versions:
        yield required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")
        return
    for i, version in enumerate(versions):
        yield from make_errors(f"{path}[{i}]", version, names.dns_1035_label(version))
        if version in versions[:i]:
            yield invalid(f"{path}[{i}]", version, "duplicate version")
    if not set(versions) & set(REVIEW_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def validate_rule_with_operations(path: str, rule: RuleWithOperations) -> Errors:
    """Check a rule that matches requests."""
    for field, values in (
        ("apiGroups", rule.api_groups),
        ("apiVersions", rule.api_versions),
        ("resources", rule.resources),
        ("operations", rule.operations),
    ):
        place = f"{path}.{field}"
        if not values:
            yield required(place)
        elif "*" in values and len(values) > 1 and field in _PLURALS:
            yield invalid(place, values, f"if '*' is present, must not specify other {_PLURALS[field]}")
    yield from _validate_not_empty(f"{path}.apiVersions", rule.api_versions)
    yield from _validate_resources(f"{path}.resources", rule.resources)
    for i, operation in enumerate(rule.operations):
        yield from _validate_choice(f"{path}.operations[{i}]", operation, OPERATIONS)
    yield from _validate_choice(f"{path}.scope", rule.scope, SCOPES)


_PLURALS = {
    "apiGroups": "API groups",
    "apiVersions": "API versions",
    "operations": "operations",
}


def _validate_not_empty(path: str, values: Sequence[str]) -> Errors:
    for i, value in enumerate(values):
        if not value:
            yield required(f"{path}[{i}]")


def _validate_resources(path: str, resources: Sequence[str]) -> Errors:
    of_all: set[str] = set()  # subresources that are matched for every resource
    whole: set[str] = set()  # resources that are matched with every subresource
    for i, value in enumerate(resources):
        place = f"{path}[{i}]"
        if not value:
            yield required(place)
            continue
        resource, _, sub = value.partition("/")
        if resource in whole and sub:
            yield invalid(place, value, f"if '{resource}/*' is present, must not specify {value}")
        if sub in of_all and sub:
            yield invalid(place, value, f"if '*/{sub}' is present, must not specify {value}")
        if sub == "*":
            whole.add(resource)
        if resource == "*" and sub:
            of_all.add(sub)
    if "*/*" in resources and len(resources) > 1:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in value for value in resources if value != "*"):
        yield invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def validate_client_config(path: str, config: WebhookClientConfig) -> Errors:
    """Check the address of a webhook."""
    if (config.url is None) == (config.service is None):
        yield required(path, "exactly one of url or service is required")
    elif config.url is not None:
        yield from _validate_url(f"{path}.url", config.url)
    elif config.service is not None:
        yield from _validate_service(f"{path}.service", config.service)


def _validate_url(path: str, url: str) -> Errors:
    form = "; desired format: https://host[/path]"
    try:
        if any(character <= " " or character == "\x7f" for character in url):  # characters that urlsplit would remove
            raise ValueError("invalid control character in URL")
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{form}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not host:
        yield invalid(path, parts.netloc, f"host must be specified{form}")
    if parts.username is not None:
        yield invalid(path, parts.username, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _validate_service(path: str, service: ServiceReference) -> Errors:
    if not service.name:
        yield required(f"{path}.name", "service name is required")
    if not service.namespace:
        yield required(f"{path}.namespace", "service namespace is required")
    if service.port is not None and names.port_number(service.port):
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        yield invalid(f"{path}.port", service.port, detail)
    if service.path is not None:
        yield from _validate_service_path(f"{path}.path", service.path)


def _validate_service_path(path: str, value: str) -> Errors:
    """Check the URL path of a webhook's service: it has no query, and its segments are DNS subdomains.

    The path may end with a slash.
    path: the path of the field.
    """
    if value in ("", "/"):
        return
    parts = urlsplit(f"https://host{value}")
    if not value.startswith("/"):
        yield invalid(path, value, "must start with a '/'")
        return
    if parts.path != value:
        yield invalid(path, value, "must be a path, without a query or a fragment")
        return
    for i, step in enumerate(value[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(path, value, f"segment[{i}] may not be empty")
        for message in names.dns_subdomain(step) if step else ():
            yield invalid(path, value, f"segment[{i}]: {message}")


def validate_match_conditions(path: str, conditions: Sequence[MatchCondition], compile: Compile) -> Errors:
    """Check the match conditions, which are in CEL."""
    if len(conditions) > MAX_MATCH_CONDITIONS:
        yield too_many(path, len(conditions), MAX_MATCH_CONDITIONS)
        return
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        place = f"{path}[{i}]"
        if not condition.expression.strip():
            yield required(f"{place}.expression")
        elif why := compile(condition.expression):
            yield invalid(f"{place}.expression", condition.expression, why)
        if not condition.name:
            yield required(f"{place}.name")
            continue
        yield from make_errors(f"{place}.name", condition.name, names.label_key(condition.name))
        if condition.name in seen:
            yield duplicate(f"{place}.name", condition.name)
        seen.add(condition.name)
