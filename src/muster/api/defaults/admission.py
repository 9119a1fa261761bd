"""The defaults of webhook configurations and admission policies, and of the limits of a namespace."""

from typing import Any

from muster.api.defaults.resources import default_resource_list

Json = dict[str, Any]

_ITEM_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def default_mutating_webhooks(configuration: Json) -> None:
    """Set the defaults of a MutatingWebhookConfiguration."""
    for webhook in configuration.get("webhooks", ()):
        _default_webhook(webhook)
        webhook.setdefault("reinvocationPolicy", "Never")


def default_validating_webhooks(configuration: Json) -> None:
    """Set the defaults of a ValidatingWebhookConfiguration."""
    for webhook in configuration.get("webhooks", ()):
        _default_webhook(webhook)


def _default_webhook(webhook: Json) -> None:
    webhook.setdefault("failurePolicy", "Fail")
    webhook.setdefault("timeoutSeconds", 10)
    service = webhook.get("clientConfig", {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    _default_match(webhook, "rules")


def default_policy(policy: Json) -> None:
    """Set the defaults of a ValidatingAdmissionPolicy."""
    spec = policy.get("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if "matchConstraints" in spec:
        _default_match(spec["matchConstraints"], "resourceRules", "excludeResourceRules")


def default_policy_binding(binding: Json) -> None:
    """Set the defaults of a ValidatingAdmissionPolicyBinding."""
    resources = binding.get("spec", {}).get("matchResources")
    if resources is not None:
        _default_match(resources, "resourceRules", "excludeResourceRules")


def _default_match(match: Json, *rules: str) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in (rule for name in rules for rule in match.get(name, ())):
        rule.setdefault("scope", "*")


def default_resource_quota(quota: Json) -> None:
    """Set the defaults of a ResourceQuota."""
    default_resource_list(quota.setdefault("spec", {}).get("hard"))
    status = quota.setdefault("status", {})
    default_resource_list(status.get("hard"))
    default_resource_list(status.get("used"))


def default_limit_range(limits: Json) -> None:
    """Set the defaults of a LimitRange.

    A container's default limit is its maximum, its default request the limit or else the minimum.
    """
    for item in limits.get("spec", {}).get("limits", ()):
        if item.get("type") == "Container":
            _fill(item, "default", "max")
            _fill(item, "defaultRequest", "default")
            _fill(item, "defaultRequest", "min")
        for name in _ITEM_LISTS:
            default_resource_list(item.get(name))


def _fill(item: Json, target: str, source: str) -> None:
    for resource, quantity in item.get(source, {}).items():
        item.setdefault(target, {}).setdefault(resource, quantity)
