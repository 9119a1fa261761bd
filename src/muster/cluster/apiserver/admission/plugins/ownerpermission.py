"""Decide which users may set the owners of an object, and make the deletion of an owner wait for the object.

The rules follow OwnerReferencesPermissionEnforcement (k8s.io/kubernetes):

- Changing the owners of an object may cause its garbage collection, so the user must be allowed to delete the object.
- Blocking the deletion of an owner requires the right to update the owner's finalizers.
"""

from collections.abc import Mapping
from typing import Any

from muster.api.status import ApiError
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import MASTERS, Access, Authorizer
from muster.cluster.apiserver.registry.resources import Registry, Resource
from muster.cluster.store import Store

_UNDELETABLE = "cannot set an ownerRef on a resource you can't delete"
_UNBLOCKABLE = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"

Reference = Mapping[str, Any]


class OwnerPermission:
    """The judging plugin that checks owner references."""

    def __init__(self, registry: Registry, authorizer: Authorizer) -> None:
        self._registry = registry
        self._authorizer = authorizer

    def __call__(self, attempt: WriteAttempt, store: Store) -> None:  # noqa: ARG002  (the signature of a plugin)
        """Raise `ApiError` (403) if the writer has no right to set the owners that the object names."""
        if attempt.operation not in ("CREATE", "UPDATE") or MASTERS in attempt.user.groups:
            return
        new, old = _list_owners(attempt.document), _list_owners(attempt.old)
        if new == old:
            return
        if attempt.operation == "UPDATE":  # the creator of an object may give it any owner
            self._require(attempt, _make_access(attempt, attempt.resource, "delete", attempt.name), _UNDELETABLE)
        blocked = {_identify_owner(owner) for owner in old if owner.get("blockOwnerDeletion")}
        for owner in new:
            if owner.get("blockOwnerDeletion") and _identify_owner(owner) not in blocked:
                self._require_finalizers(attempt, owner)

    def _require_finalizers(self, attempt: WriteAttempt, owner: Reference) -> None:
        api_version, kind = str(owner.get("apiVersion", "")), str(owner.get("kind", ""))
        resource = self._registry.of_kind(api_version, kind)
        if resource is None:
            raise attempt.make_refusal(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
                f'APIVersion {api_version} Kind {kind}: no matches for kind "{kind}" in version "{api_version}"',
            )
        access = _make_access(attempt, resource, "update", str(owner.get("name", "")), "finalizers")
        self._require(attempt, access, _UNBLOCKABLE)

    def _require(self, attempt: WriteAttempt, access: Access, sentence: str) -> None:
        try:
            self._authorizer(access)
        except ApiError:
            raise attempt.make_refusal(f"{sentence}: , <nil>") from None  # upstream renders two empty values here


def _list_owners(document: Document | None) -> list[Reference]:
    return ((document or {}).get("metadata") or {}).get("ownerReferences") or []


def _identify_owner(owner: Reference) -> tuple[Any, ...]:
    return tuple(owner.get(field) for field in ("apiVersion", "kind", "name", "uid"))


def _make_access(attempt: WriteAttempt, resource: Resource, verb: str, name: str, subresource: str = "") -> Access:
    kind = resource.kind
    plural = f"{kind.plural}/{subresource}" if subresource else kind.plural
    namespace = attempt.namespace if kind.namespaced else ""
    return Access(attempt.user, verb, kind.group, plural, namespace, name)
