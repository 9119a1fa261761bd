"""Decide what rules of roles grant: whether a rule allows an access, and which rights some rules lack. Pure.

The rules follow k8s.io/kubernetes (pkg/apis/rbac/v1/evaluation_helpers.go) and
k8s.io/component-helpers/auth/rbac/validation.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

from muster.api.server.rbac import PolicyRule
from muster.cluster.apiserver.identity.users import Access

ALL = "*"
# The most words of rules that one check compares: about half a second of work, which blocks all other requests.
MAX_COMPARED = 5_000_000

EVERYTHING = (
    PolicyRule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    PolicyRule(verbs=(ALL,), non_resource_urls=(ALL,)),
)


class TooManyRightsError(Exception):
    """A set of rules that grants more single rights than the server compares (`MAX_COMPARED`)."""


def allows(rule: PolicyRule, access: Access) -> bool:
    """Return whether the rule grants the access."""
    if not _matches(rule.verbs, access.verb):
        return False
    if not access.resource:
        return any(_matches_url(url, access.path) for url in rule.non_resource_urls)
    return (
        _matches(rule.api_groups, access.group)
        and any(_matches_resource(resource, access.resource) for resource in rule.resources)
        and (not rule.resource_names or access.name in rule.resource_names)
    )


def find_uncovered(owned: Sequence[PolicyRule], rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the single rights that `rules` grants and `owned` does not.

    Raises `TooManyRightsError`.
    """
    missing: list[PolicyRule] = []
    words, left = 1 + sum(map(_count_words, owned)), MAX_COMPARED
    for rule in rules:
        left -= words
        if left > 0 and any(_covers(own, rule) for own in owned):
            continue
        left -= _count_rights(rule) * words
        if left < 0:
            raise TooManyRightsError
        missing += [right for right in _split_rule(rule) if not any(_covers(own, right) for own in owned)]
    return missing


def compact_rights(rights: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the same rights as fewer rules: rights on the same resources become one rule with all their verbs."""
    verbs: dict[PolicyRule, dict[str, None]] = {}
    for right in rights:
        without = PolicyRule(
            api_groups=right.api_groups,
            resources=right.resources,
            resource_names=right.resource_names,
            non_resource_urls=right.non_resource_urls,
        )
        target = without if right.resources else right
        verbs.setdefault(target, {}).update(dict.fromkeys(right.verbs))
    return [
        PolicyRule(
            verbs=tuple(of),
            api_groups=rule.api_groups,
            resources=rule.resources,
            resource_names=rule.resource_names,
            non_resource_urls=rule.non_resource_urls,
        )
        for rule, of in verbs.items()
    ]


def render_rule(rule: PolicyRule) -> str:
    """Return a rule as text for refusals: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`."""
    parts = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.non_resource_urls,
        "ResourceNames": rule.resource_names,
        "Verbs": rule.verbs,
    }
    return "{" + ", ".join(f"{name}:{quote_texts(values)}" for name, values in parts.items() if values) + "}"


def quote_texts(values: Iterable[str]) -> str:
    """Return a list of texts in Go's format: `["a" "b"]`."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _matches(accepted: tuple[str, ...], value: str) -> bool:
    return value in accepted or ALL in accepted


def _matches_resource(accepted: str, resource: str) -> bool:
    if accepted in (ALL, resource):
        return True
    return accepted.startswith("*/") and "/" in resource and accepted[1:] == resource[resource.index("/") :]


def _matches_url(accepted: str, path: str) -> bool:
    if accepted in (ALL, path):
        return True
    return accepted.endswith(ALL) and path.startswith(accepted.rstrip(ALL))


def _count_words(rule: PolicyRule) -> int:
    parts = (rule.verbs, rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls)
    return sum(map(len, parts))


def _count_rights(rule: PolicyRule) -> int:
    names = max(len(rule.resource_names), 1)
    on_resources = prod(map(len, (rule.verbs, rule.api_groups, rule.resources))) * names
    return on_resources + len(rule.verbs) * len(rule.non_resource_urls)


def _split_rule(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Yield the single rights of a rule: one verb on one resource or path each."""
    names: Sequence[tuple[str, ...]] = [(name,) for name in rule.resource_names] or [()]
    for group, resource, verb, named in product(rule.api_groups, rule.resources, rule.verbs, names):
        yield PolicyRule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=named)
    for url, verb in product(rule.non_resource_urls, rule.verbs):
        yield PolicyRule(verbs=(verb,), non_resource_urls=(url,))


def _covers(own: PolicyRule, rule: PolicyRule) -> bool:
    return (
        _covers_all(own.verbs, rule.verbs)
        and _covers_all(own.api_groups, rule.api_groups)
        and _covers_resources(own.resources, rule.resources)
        and all(any(_matches_url(mine, url) for mine in own.non_resource_urls) for url in rule.non_resource_urls)
        and (not own.resource_names or (bool(rule.resource_names) and {*rule.resource_names} <= {*own.resource_names}))
    )


def _covers_all(own: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return ALL in own or {*others} <= {*own}


def _covers_resources(own: tuple[str, ...], others: tuple[str, ...]) -> bool:
    if ALL in own:
        return True
    return all(other in own or ("/" in other and f"*/{other.partition('/')[2]}" in own) for other in others)
