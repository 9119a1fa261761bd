"""What an aggregated ClusterRole grants: the rules of the roles that it selects. Pure."""

from collections.abc import Iterable

from muster.api.server.rbac import ClusterRole, PolicyRule
from muster.api.values.selectors import label_matcher


def aggregated(role: ClusterRole, roles: Iterable[ClusterRole]) -> tuple[PolicyRule, ...]:
    """The rules that the role should have: of the selected roles in the order of their names, each rule once.

    Raises `SelectorError` if a selector makes no sense.
    """
    if role.aggregation_rule is None:
        return role.rules
    own = role.metadata.name
    others = sorted((other for other in roles if other.metadata.name != own), key=lambda other: other.metadata.name)
    found: dict[PolicyRule, None] = {}
    for selector in role.aggregation_rule.cluster_role_selectors:
        matcher = label_matcher(selector)
        for other in others:
            if matcher.matches(other.metadata.labels):
                found.update(dict.fromkeys(other.rules))
    return tuple(found)
