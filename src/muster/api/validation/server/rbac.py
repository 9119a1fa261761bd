"""The rules of roles and bindings (k8s.io/kubernetes/pkg/apis/rbac/validation)."""

from muster.api.server.rbac import (
    CLUSTER_ROLE,
    GROUP,
    ROLE,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import Errors, invalid, make_errors, required, unsupported
from muster.api.validation.metadata import changed_metadata, new_metadata, validate_label_selector

_Binding = RoleBinding | ClusterRoleBinding
_SUBJECT_GROUPS = {"User": GROUP, "Group": GROUP, "ServiceAccount": ""}


def validate_create(obj: Role | RoleBinding) -> list[FieldError]:
    """Return the errors in a new Role or RoleBinding."""
    return [*new_metadata(obj.metadata, names.path_segment), *_validate_body(obj, namespaced=True)]


def validate_update(new: Role | RoleBinding, old: Role | RoleBinding) -> list[FieldError]:
    """Return the errors in a change of a Role or RoleBinding."""
    return [
        *changed_metadata(new.metadata, old.metadata),
        *_validate_body(new, namespaced=True),
        *_validate_role_reference(new, old),
    ]


def validate_cluster_create(obj: ClusterRole | ClusterRoleBinding) -> list[FieldError]:
    """Return the errors in a new ClusterRole or ClusterRoleBinding."""
    return [*new_metadata(obj.metadata, names.path_segment, namespaced=False), *_validate_body(obj, namespaced=False)]


def validate_cluster_update(
    new: ClusterRole | ClusterRoleBinding, old: ClusterRole | ClusterRoleBinding
) -> list[FieldError]:
    """Return the errors in a change of a ClusterRole or ClusterRoleBinding."""
    return [
        *changed_metadata(new.metadata, old.metadata),
        *_validate_body(new, namespaced=False),
        *_validate_role_reference(new, old),
    ]


def _validate_body(obj: Role | ClusterRole | _Binding, *, namespaced: bool) -> Errors:
    if isinstance(obj, _Binding):
        yield from _validate_role_ref(obj.role_ref, namespaced=namespaced)
        for i, subject in enumerate(obj.subjects):
            yield from _validate_subject(f"subjects[{i}]", subject, namespaced=namespaced)
        return
    for i, rule in enumerate(obj.rules):
        yield from _validate_rule(f"rules[{i}]", rule, namespaced=namespaced)
    if isinstance(obj, ClusterRole) and obj.aggregation_rule is not None:
        selectors = obj.aggregation_rule.cluster_role_selectors
        path = "aggregationRule.clusterRoleSelectors"
        if not selectors:
            yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        for i, selector in enumerate(selectors):
            yield from validate_label_selector(f"{path}[{i}]", selector)


def _validate_rule(path: str, rule: PolicyRule, *, namespaced: bool) -> Errors:
    if not rule.verbs:
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    if rule.non_resource_urls:
        if namespaced:
            yield invalid(
                f"{path}.nonResourceURLs", rule.non_resource_urls, "namespaced rules cannot apply to non-resource URLs"
            )
        if rule.api_groups or rule.resources or rule.resource_names:
            sentence = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", rule.non_resource_urls, sentence)
        return
    if not rule.api_groups:
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.resources:
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _validate_role_ref(ref: RoleRef, *, namespaced: bool) -> Errors:
    if ref.api_group != GROUP:
        yield unsupported("roleRef.apiGroup", ref.api_group, [GROUP])
    kinds = [ROLE.kind, CLUSTER_ROLE.kind] if namespaced else [CLUSTER_ROLE.kind]
    if ref.kind not in kinds:
        yield unsupported("roleRef.kind", ref.kind, sorted(kinds))
    if not ref.name:
        yield required("roleRef.name")
    else:
        yield from make_errors("roleRef.name", ref.name, names.path_segment(ref.name))


def _validate_subject(path: str, subject: Subject, *, namespaced: bool) -> Errors:
    if not subject.name:
        yield required(f"{path}.name")
    group = _SUBJECT_GROUPS.get(subject.kind)
    if group is None:
        yield unsupported(f"{path}.kind", subject.kind, sorted(_SUBJECT_GROUPS))
        return
    if subject.kind == "ServiceAccount":
        if subject.name:
            yield from make_errors(f"{path}.name", subject.name, names.dns_subdomain(subject.name))
        if not namespaced and not subject.namespace:
            yield required(f"{path}.namespace")
    if subject.api_group != group:
        yield unsupported(f"{path}.apiGroup", subject.api_group, [group])


def _validate_role_reference(new: Role | ClusterRole | _Binding, old: Role | ClusterRole | _Binding) -> Errors:
    if isinstance(new, _Binding) and isinstance(old, _Binding) and new.role_ref != old.role_ref:
        yield invalid("roleRef", new.role_ref, "cannot change roleRef")
