"""Decide which webhooks match a request, by rules, selectors and versions. Pure.

The rules follow k8s.io/apiserver (admission/plugin/webhook). With the matchPolicy Equivalent, a rule for one
version of a resource matches requests for all versions. The webhook then gets the objects in the rule's version.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from muster.api.core import NAMESPACE
from muster.api.server.admissionregistration import GROUP, RuleWithOperations, ValidatingWebhook
from muster.api.values.selectors import LabelMatcher, label_matcher
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.resources import Resource, View

# Nobody could correct a webhook that refused changes of these.
_EXEMPT = frozenset({
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
})  # fmt: skip


class Hook(Struct, frozen=True, eq=False):
    """One webhook, with its selectors parsed."""

    webhook: ValidatingWebhook
    namespaces: LabelMatcher
    objects: LabelMatcher

    @classmethod
    def of(cls, webhook: ValidatingWebhook) -> "Hook":
        """Parse the selectors of a webhook. Raises `SelectorError` for selectors that validation would refuse."""
        return cls(webhook, label_matcher(webhook.namespace_selector), label_matcher(webhook.object_selector))


class Concern(Struct, frozen=True, eq=False):
    """A webhook that matches a request, and the resource in the version that the webhook gets."""

    hook: Hook
    resource: Resource

    def view(self, subresource: str, request_view: View) -> View:
        """Return the view in which the webhook gets the objects.

        request_view: the request's view, for a subresource that this version lacks.
        """
        sub = self.resource.subresource(subresource)
        return self.resource.view if not subresource else sub.bodies if sub is not None else request_view


def find_concerned(
    hooks: Iterable[Hook], resource: Resource, subresource: str, operation: str, others: Iterable[Resource]
) -> list[Concern]:
    """Return the webhooks whose rules match requests on this resource and subresource, in the order of `hooks`.

    others: other resources; some of them may show the same stored objects in other versions.
    """
    if resource.kind.group == GROUP and resource.kind.plural in _EXEMPT:
        return []
    same = [other for other in others if other.key == resource.key and other is not resource]
    concerns = []
    for hook in hooks:
        exact = hook.webhook.match_policy == "Exact"
        seen = _find_matching(hook.webhook.rules, [resource] if exact else [resource, *same], subresource, operation)
        if seen is not None:
            concerns.append(Concern(hook, seen))
    return concerns


def _find_matching(
    rules: Iterable[RuleWithOperations], resources: Iterable[Resource], subresource: str, operation: str
) -> Resource | None:
    rules = tuple(rules)
    for resource in resources:
        if any(rule_matches(rule, resource, subresource, operation) for rule in rules):
            return resource
    return None


def rule_matches(rule: RuleWithOperations, resource: Resource, subresource: str, operation: str) -> bool:
    """Return whether a webhook's rule matches requests on this resource and subresource."""
    kind = resource.kind
    return (
        _is_among(operation, rule.operations)
        and _is_among(kind.group, rule.api_groups)
        and _is_among(kind.version, rule.api_versions)
        and any(_matches_pattern(pattern, kind.plural, subresource) for pattern in rule.resources)
        and rule.scope in (None, "*", "Namespaced" if kind.namespaced else "Cluster")
    )


def _is_among(value: str, values: tuple[str, ...]) -> bool:
    return "*" in values or value in values


def _matches_pattern(pattern: str, plural: str, subresource: str) -> bool:
    """Return whether a pattern matches: `pods`, `pods/log`, `pods/*`, `*/scale`, `*` or `*/*`.

    A pattern without a slash matches no subresource.
    """
    of, _, below = pattern.partition("/")
    return of in ("*", plural) and below in ("*", subresource)


def is_selected(
    hook: Hook,
    resource: Resource,
    subresource: str,
    operation: str,
    new: Document | None,
    old: Document | None,
    namespace_labels: Mapping[str, str] | None,
) -> bool:
    """Return whether the selectors of a webhook match this object.

    namespace_labels: the labels of the object's namespace; None if it has no namespace.
    """
    if hook.namespaces:
        labels = namespace_labels
        if resource.key == NAMESPACE.resource:
            written = operation in ("CREATE", "UPDATE") and not subresource
            labels = labels_of(new if written else old or new)
        if labels is not None and not hook.namespaces.matches(labels):
            return False
    if not hook.objects:
        return True
    return any(obj is not None and hook.objects.matches(labels_of(obj)) for obj in (new, old))


def labels_of(document: Document | None) -> Mapping[str, str]:
    """Return the labels of an object."""
    labels: Any = ((document or {}).get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}
