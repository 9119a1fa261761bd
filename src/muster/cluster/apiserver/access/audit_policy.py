"""Decide what the audit log contains about each request, by a policy of `audit.k8s.io/v1`. Pure.

The first rule that matches a request decides. Secrets, token reviews and token requests contain values that must not
appear in a log. The log contains only their metadata, unless the matching rule names their resource.
"""

from typing import Literal, get_args

import msgspec
from msgspec import Struct

from muster.cluster.apiserver.identity.users import Access, User

Level = Literal["None", "Metadata", "Request", "RequestResponse"]
Stage = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]

MAX_POLICY_BYTES = 1 << 20
_SENSITIVE = frozenset({("", "secrets"), ("", "serviceaccounts/token"), ("authentication.k8s.io", "tokenreviews")})


_VERSION, _KIND = "audit.k8s.io/v1", "Policy"


class PolicyError(Exception):
    """An audit policy that cannot be used. The message says where it is wrong, and why."""


class _Data(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base class of a policy's parts. It refuses unknown fields."""


class GroupResources(_Data, frozen=True, kw_only=True):
    """Resources of a group that a rule of an audit policy matches.

    resources: plural names, `pods/log`, `*`, `*/scale` or `pods/*`; an empty list means all.
    """

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class Rule(_Data, frozen=True, kw_only=True):
    """A rule of an audit policy: which requests it matches, and how much of them is logged.

    An empty list matches all requests.
    """

    level: Level
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool | None = None


class Policy(_Data, frozen=True, kw_only=True):
    """An audit policy: its rules in order, and the settings that apply to all rules."""

    api_version: str
    kind: str
    rules: tuple[Rule, ...]
    metadata: dict[str, object] = {}
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool = False


class Scope(Struct, frozen=True):
    """How much of one request the audit log records: the level, and the stages and fields to leave out."""

    level: Level = "None"
    omit_stages: frozenset[Stage] = frozenset()
    omit_managed_fields: bool = False


def parse(text: str | bytes) -> Policy:
    """Return the policy in the text of a YAML file. Raises `PolicyError`."""
    from muster.api.values.yaml_decode import decode  # the module loads slowly, and few servers have a policy

    data = text.encode() if isinstance(text, str) else text
    if len(data) > MAX_POLICY_BYTES:
        raise PolicyError(f"the policy has more than {MAX_POLICY_BYTES} bytes")
    try:
        document, duplicates = decode(data)
        type_meta = (document.get("apiVersion"), document.get("kind")) if isinstance(document, dict) else ()
        if type_meta != (_VERSION, _KIND):
            raise PolicyError(f"it must be of apiVersion {_VERSION} and kind {_KIND}")
        policy = msgspec.convert(document, Policy)
    except (ValueError, msgspec.ValidationError) as error:
        levels = f"; levels are {', '.join(get_args(Level))}" if "level" in str(error) else ""
        raise PolicyError(f"{error}{levels}") from None
    if duplicates:
        raise PolicyError(f"{duplicates[0].path} is given twice")
    for i, rule in enumerate(policy.rules):
        if rule.non_resource_urls and (rule.resources or rule.namespaces):
            raise PolicyError(f"rules[{i}]: rules cannot apply to both regular resources and non-resource URLs")
    return policy


def find_scope(policy: Policy, access: Access) -> Scope:
    """Return how much of a request to log, by the first rule that matches; nothing if no rule does.

    Secrets and token requests are logged without bodies, unless the rule names their resource.
    """
    for rule in policy.rules:
        if _matches(rule, access):
            omitted = frozenset({*policy.omit_stages, *rule.omit_stages})
            own = rule.omit_managed_fields
            return Scope(_find_level(rule, access), omitted, policy.omit_managed_fields if own is None else own)
    return Scope()


def _find_level(rule: Rule, access: Access) -> Level:
    # A request for an unknown subresource of a Secret carries the Secret in its body, too.
    resource = "secrets" if access.resource.startswith("secrets/") else access.resource
    sensitive = (access.group, resource) in _SENSITIVE
    if not sensitive or rule.level in ("None", "Metadata"):
        return rule.level
    named = any(of.group == access.group and access.resource in of.resources for of in rule.resources)
    return rule.level if named else "Metadata"


def _matches(rule: Rule, access: Access) -> bool:
    if not _is_about(rule, access.user) or (rule.verbs and access.verb not in rule.verbs):
        return False
    if rule.namespaces or rule.resources:
        return bool(access.resource) and _is_about_resource(rule, access)
    if rule.non_resource_urls:
        return not access.resource and any(_matches_path(url, access.path) for url in rule.non_resource_urls)
    return True


def _is_about(rule: Rule, user: User) -> bool:
    if rule.users and user.name not in rule.users:
        return False
    return not rule.user_groups or not user.groups.isdisjoint(rule.user_groups)


def _is_about_resource(rule: Rule, access: Access) -> bool:
    if rule.namespaces and access.namespace not in rule.namespaces:
        return False
    return not rule.resources or any(_matches_group(of, access) for of in rule.resources)


def _matches_group(of: GroupResources, access: Access) -> bool:
    if of.group != access.group:
        return False
    if of.resource_names and access.name not in of.resource_names:
        return False
    return not of.resources or any(_matches_resource(resource, access.resource) for resource in of.resources)


def _matches_resource(accepted: str, resource: str) -> bool:
    if accepted in ("*", resource):
        return True
    plural, _, sub = resource.partition("/")
    return bool(sub) and accepted in (f"*/{sub}", f"{plural}/*")


def _matches_path(accepted: str, path: str) -> bool:
    return accepted == path or (accepted.endswith("*") and path.startswith(accepted[:-1]))
