"""The served resources of roles, role bindings, access and token reviews, and token requests."""

from typing import Any

from muster.api.kinds import Kind
from muster.api.server.authentication import SELF_SUBJECT_REVIEW, TOKEN_REQUEST, TOKEN_REVIEW
from muster.api.server.authorization import (
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
)
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from muster.api.validation.server import rbac
from muster.cluster.apiserver.registry.entries import make_resource
from muster.cluster.apiserver.registry.resources import Resource, Rules, Subresource, View


def _make_review_resource(kind: Kind[Any]) -> Resource:
    """Return the resource of a kind whose objects clients post to get an answer. They are never stored."""
    return Resource(kind, kind, View(kind), verbs=("create",))


_NAMESPACED = (rbac.validate_create, rbac.validate_update)
_CLUSTER = (rbac.validate_cluster_create, rbac.validate_cluster_update)
_RULES = Rules(create_on_update=True)

RBAC: tuple[Resource, ...] = (
    make_resource(ROLE, _NAMESPACED, _RULES),
    make_resource(CLUSTER_ROLE, _CLUSTER, _RULES),
    make_resource(ROLE_BINDING, _NAMESPACED, _RULES),
    make_resource(CLUSTER_ROLE_BINDING, _CLUSTER, _RULES),
    _make_review_resource(SUBJECT_ACCESS_REVIEW),
    _make_review_resource(LOCAL_SUBJECT_ACCESS_REVIEW),
    _make_review_resource(SELF_SUBJECT_ACCESS_REVIEW),
    _make_review_resource(SELF_SUBJECT_RULES_REVIEW),
    _make_review_resource(TOKEN_REVIEW),
    _make_review_resource(SELF_SUBJECT_REVIEW),
)

# The subresource of service accounts.
TOKEN = Subresource("token", TOKEN_REQUEST, ("create",))
