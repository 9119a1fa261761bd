"""Refuse roles and bindings that would grant rights which the writer does not have.

A user who may `escalate` a role, or `bind` it, is exempt. The rules follow k8s.io/kubernetes
(pkg/registry/rbac/*/policybased).
"""

from collections.abc import Sequence

import msgspec

from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE, ROLE_BINDING, PolicyRule, RoleRef
from muster.api.status import not_found
from muster.cluster.apiserver.access.rbac import Rbac
from muster.cluster.apiserver.access.rules import (
    EVERYTHING,
    TooManyRightsError,
    compact_rights,
    find_uncovered,
    quote_texts,
    render_rule,
)
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import MASTERS, Access, User
from muster.cluster.store import Store

_ROLES = frozenset({ROLE.resource, CLUSTER_ROLE.resource})
_BINDINGS = frozenset({ROLE_BINDING.resource, CLUSTER_ROLE_BINDING.resource})


def make_escalation_check(rbac: Rbac) -> Plugin:
    """Return the admission plugin that keeps users from granting rights that they do not have themselves."""

    def check(attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG001  (one of many of this shape)
        if attempt.operation not in ("CREATE", "UPDATE") or MASTERS in attempt.user.groups:
            return
        if attempt.resource.key in _ROLES:
            _check_role(rbac, attempt)
        elif attempt.resource.key in _BINDINGS:
            _check_binding(rbac, attempt)

    return check


def _check_role(rbac: Rbac, attempt: WriteAttempt) -> None:
    document, old = attempt.document, attempt.old
    # A label alone can grant a role's rules, because an aggregated role may select the label.
    if old is not None and _remove_passing_metadata(document) == _remove_passing_metadata(old):
        return
    kind = attempt.resource.kind
    if rbac.decide(_make_access(attempt, "escalate", kind.plural, attempt.name)).allowed:
        return
    _require_held_rights(rbac, attempt, msgspec.convert(document.get("rules") or (), tuple[PolicyRule, ...]))
    if document.get("aggregationRule") or (old or {}).get("aggregationRule"):
        _require_held_rights(rbac, attempt, EVERYTHING, "must have cluster-admin privileges to use an aggregationRule")


# The metadata that garbage collection and field management write.
_PASSING = frozenset({"ownerReferences", "finalizers", "managedFields"})


def _remove_passing_metadata(role: Document) -> Document:
    """Return a role without the metadata that cannot change any rights."""
    meta = {name: value for name, value in role["metadata"].items() if name not in _PASSING}
    return {**role, "metadata": meta}


def _check_binding(rbac: Rbac, attempt: WriteAttempt) -> None:
    document, old = attempt.document, attempt.old or {}
    if attempt.old is not None and document.get("subjects") == old.get("subjects"):
        return  # the role of a binding never changes
    ref = msgspec.convert(document["roleRef"], RoleRef)
    plural = ROLE.plural if ref.kind == ROLE.kind else CLUSTER_ROLE.plural
    if rbac.decide(_make_access(attempt, "bind", plural, ref.name)).allowed:
        return
    rules = rbac.role_rules(ref, attempt.namespace)
    if rules is None:
        raise not_found(f"{plural}.{GROUP}", ref.name)
    _require_held_rights(rbac, attempt, rules)


def _make_access(attempt: WriteAttempt, verb: str, plural: str, name: str) -> Access:
    return Access(attempt.user, verb, GROUP, plural, attempt.namespace, name)


def _require_held_rights(rbac: Rbac, attempt: WriteAttempt, rules: Sequence[PolicyRule], instead: str = "") -> None:
    """Raise `ApiError` (403) unless the writer has all rights of these rules.

    instead: the message; if it is empty, the message lists the missing rights.
    """
    grants = rbac.grants(attempt.user, attempt.namespace)
    try:
        missing = find_uncovered(grants.rules, rules)
    except TooManyRightsError:
        raise attempt.make_refusal("it grants too many single rights to compare them with the writer's own") from None
    if not missing:
        return
    if instead:
        raise attempt.make_refusal(instead)
    sentences = sorted({render_rule(rule) for rule in compact_rights(missing)})
    errors = f"; resolution errors: {quote_texts(grants.errors)}" if grants.errors else ""
    raise attempt.make_refusal(
        f"{_describe_user(attempt.user)} is attempting to grant RBAC permissions not currently held:\n"
        + "\n".join(sentences)
        + errors,
    )


def _describe_user(user: User) -> str:
    return f'user "{user.name}" (groups={quote_texts(sorted(user.groups))})'
