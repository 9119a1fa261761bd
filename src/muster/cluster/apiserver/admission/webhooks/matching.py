"""Which webhooks are concerned by a request: rules, selectors, versions. Pure.

The rules are those of k8s.io/apiserver (admission/plugin/webhook). A rule that names a resource in another version than
the request means the same objects (matchPolicy Equivalent): the webhook then sees them in the version that it names.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from muster.api.core import NAMESPACE
from muster.api.server.admissionregistration import GROUP, RuleWithOperations, ValidatingWebhook
from muster.api.values.selectors import LabelMatcher, label_matcher
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.resources import Resource, View

# A webhook that broke these could no longer be corrected.
_EXEMPT = frozenset({
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
})  # fmt: skip


class Hook(Struct, frozen=True, eq=False):
    """One webhook, with its selectors understood."""

    webhook: ValidatingWebhook
    namespaces: LabelMatcher
    objects: LabelMatcher

    @classmethod
    def of(cls, webhook: ValidatingWebhook) -> "Hook":
        """Raises `SelectorError`; validation has looked at the selectors, so it should not."""
        return cls(webhook, label_matcher(webhook.namespace_selector), label_matcher(webhook.object_selector))


class Concern(Struct, frozen=True, eq=False):
    """A webhook that is to be asked, and the resource in the version in which it sees the objects."""

    hook: Hook
    resource: Resource

    def view(self, subresource: str, given: View) -> View:
        """How it sees them: `given`, if that is the version of the request."""
        found = self.resource.subresource(subresource)
        return self.resource.view if not subresource else found.bodies if found is not None else given


def concerned(
    hooks: Iterable[Hook], resource: Resource, subresource: str, operation: str, others: Iterable[Resource]
) -> list[Concern]:
    """The webhooks whose rules mean such requests, in their order.

    `others` are the resources that show the same stored objects otherwise.
    """
    if resource.kind.group == GROUP and resource.kind.plural in _EXEMPT:
        return []
    same = [other for other in others if other.key == resource.key and other is not resource]
    found = []
    for hook in hooks:
        exact = hook.webhook.match_policy == "Exact"
        seen = _meant(hook.webhook.rules, [resource] if exact else [resource, *same], subresource, operation)
        if seen is not None:
            found.append(Concern(hook, seen))
    return found


def _meant(
    rules: Iterable[RuleWithOperations], resources: Iterable[Resource], subresource: str, operation: str
) -> Resource | None:
    rules = tuple(rules)
    for resource in resources:
        if any(rule_matches(rule, resource, subresource, operation) for rule in rules):
            return resource
    return None


def rule_matches(rule: RuleWithOperations, resource: Resource, subresource: str, operation: str) -> bool:
    """Whether a rule means such requests."""
    kind = resource.kind
    return (
        _among(operation, rule.operations)
        and _among(kind.group, rule.api_groups)
        and _among(kind.version, rule.api_versions)
        and any(_names(pattern, kind.plural, subresource) for pattern in rule.resources)
        and rule.scope in (None, "*", "Namespaced" if kind.namespaced else "Cluster")
    )


def _among(value: str, values: tuple[str, ...]) -> bool:
    return "*" in values or value in values


def _names(pattern: str, plural: str, subresource: str) -> bool:
    """Whether `pods`, `pods/log`, `pods/*`, `*/scale`, `*` or `*/*` means it; no slash, no subresource."""
    of, _, below = pattern.partition("/")
    return of in ("*", plural) and below in ("*", subresource)


def selected(
    hook: Hook,
    resource: Resource,
    subresource: str,
    operation: str,
    new: Document | None,
    old: Document | None,
    namespace_labels: Mapping[str, str] | None,
) -> bool:
    """Whether the selectors of a webhook mean this object.

    `namespace_labels` are those of the namespace that the object is in, None if it is in none.
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
    """The labels of an object."""
    labels: Any = ((document or {}).get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}
