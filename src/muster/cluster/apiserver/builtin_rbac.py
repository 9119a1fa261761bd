"""Roles, bindings, reviews and token requests, as they are served."""

from typing import Any

from muster.api.authentication import SELF_SUBJECT_REVIEW, TOKEN_REQUEST, TOKEN_REVIEW
from muster.api.authorization import (
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
)
from muster.api.defaults.rbac import default_binding
from muster.api.kinds import Kind
from muster.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from muster.api.validation import rbac
from muster.cluster.apiserver.registry import Resource, Rules, Subresource, View


def _served(kind: Kind[Any], rules: Rules) -> Resource:
    """A stored kind; all four take a PUT for a creation."""
    if kind.namespaced:
        view = View(kind, validate_create=rbac.validate_create, validate_update=rbac.validate_update)
    else:
        view = View(kind, validate_create=rbac.validate_cluster_create, validate_update=rbac.validate_cluster_update)
    return Resource(kind, kind, view, rules)


def _asked(kind: Kind[Any]) -> Resource:
    """A kind that is posted, answered and not stored."""
    return Resource(kind, kind, View(kind), verbs=("create",))


_ROLE = Rules(create_on_update=True)
_BINDING = Rules(create_on_update=True, default=default_binding)

RBAC: tuple[Resource, ...] = (
    _served(ROLE, _ROLE),
    _served(CLUSTER_ROLE, _ROLE),
    _served(ROLE_BINDING, _BINDING),
    _served(CLUSTER_ROLE_BINDING, _BINDING),
    _asked(SUBJECT_ACCESS_REVIEW),
    _asked(LOCAL_SUBJECT_ACCESS_REVIEW),
    _asked(SELF_SUBJECT_ACCESS_REVIEW),
    _asked(SELF_SUBJECT_RULES_REVIEW),
    _asked(TOKEN_REVIEW),
    _asked(SELF_SUBJECT_REVIEW),
)

# Of service accounts.
TOKEN = Subresource("token", TOKEN_REQUEST, ("create",))
