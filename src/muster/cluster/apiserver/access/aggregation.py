"""Compute what an aggregated ClusterRole grants: the rules of the roles that it selects. Pure."""

from collections.abc import Iterable

from muster.api.server.rbac import ClusterRole, PolicyRule
from muster.api.values.selectors import label_matcher


def aggregate_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> tuple[PolicyRule, ...]:
    """Return the rules that the role should have, without repetitions, sorted by selector and then by role name.

    A role without an aggregation rule keeps its own rules. Raises `SelectorError` if a selector is invalid.
    """
    if role.aggregation_rule is None:
        return role.rules
    own = role.metadata.name
    others = sorted((other for other in roles if other.metadata.name != own), key=lambda other: other.metadata.name)
    rules: dict[PolicyRule, None] = {}
    for selector in role.aggregation_rule.cluster_role_selectors:
        matcher = label_matcher(selector)
        for other in others:
            if matcher.matches(other.metadata.labels):
                rules.update(dict.fromkeys(other.rules))
    return tuple(rules)
