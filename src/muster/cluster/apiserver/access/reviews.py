"""Answer reviews, by which clients ask about rights and identities; a review is not stored."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from muster.api.server.authentication import SELF_SUBJECT_REVIEW, TOKEN_REVIEW, TokenReviewSpec
from muster.api.server.authorization import (
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    NonResourceAttributes,
    ResourceAttributes,
    SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReviewSpec,
    SubjectAccessReviewSpec,
)
from muster.api.status import FieldError, bad_request, invalid
from muster.api.validation import fields
from muster.cluster.apiserver.access.jwt import BadTokenError
from muster.cluster.apiserver.access.rbac import Rbac
from muster.cluster.apiserver.access.tokens import AUDIENCES, Tokens
from muster.cluster.apiserver.answers import warning_headers
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import Access, User, user_info
from muster.cluster.apiserver.request.body import read_object
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import write_options
from muster.runtime.transport import JSON, Response


class Reviews:
    """The actions that answer SubjectAccessReviews, TokenReviews and the other reviews, by resource."""

    def __init__(self, rbac: Rbac, tokens: Tokens) -> None:
        self._rbac = rbac
        self._tokens = tokens
        self.actions: Mapping[str, Callable[[Call], Awaitable[Response]]] = {
            SELF_SUBJECT_ACCESS_REVIEW.resource: self._review_own_access,
            SUBJECT_ACCESS_REVIEW.resource: self._review_access,
            LOCAL_SUBJECT_ACCESS_REVIEW.resource: self._review_local_access,
            SELF_SUBJECT_RULES_REVIEW.resource: self._review_own_rules,
            SELF_SUBJECT_REVIEW.resource: self._review_self,
            TOKEN_REVIEW.resource: self._review_token,
        }

    async def _review_own_access(self, call: Call) -> Response:
        document = decode_object(call)
        spec = _decode_spec(document, SelfSubjectAccessReviewSpec)
        _require(call, _find_attribute_errors(spec))
        return make_answer(call, document, self._decide_access(call.user, spec))

    async def _review_access(self, call: Call) -> Response:
        document = decode_object(call)
        spec = _decode_spec(document, SubjectAccessReviewSpec)
        _require(call, [*_find_attribute_errors(spec), *_find_subject_errors(spec)])
        return make_answer(call, document, self._decide_access(_make_user(spec), spec))

    async def _review_local_access(self, call: Call) -> Response:
        document = decode_object(call)
        spec = _decode_spec(document, SubjectAccessReviewSpec)
        errors = [*_find_attribute_errors(spec), *_find_subject_errors(spec)]
        if spec.non_resource_attributes is not None:
            errors.append(
                fields.invalid(
                    "spec.nonResourceAttributes", spec.non_resource_attributes, "disallowed on this kind of request"
                )
            )
        elif spec.resource_attributes is not None and spec.resource_attributes.namespace != call.namespace:
            errors.append(
                fields.invalid(
                    "spec.resourceAttributes.namespace",
                    spec.resource_attributes.namespace,
                    "must match metadata.namespace",
                )
            )
        _require(call, errors)
        return make_answer(call, document, self._decide_access(_make_user(spec), spec))

    async def _review_own_rules(self, call: Call) -> Response:
        document = decode_object(call)
        namespace = _decode_spec(document, SelfSubjectRulesReviewSpec).namespace
        if not namespace:
            raise bad_request("no namespace on request")
        grants = self._rbac.grants(call.user, namespace)
        on_resources = [rule for rule in grants.rules if rule.resources]
        on_paths = [rule for rule in grants.rules if rule.non_resource_urls]
        status: Document = {
            "resourceRules": [msgspec.to_builtins(rule) for rule in dict.fromkeys(on_resources)],
            "nonResourceRules": [msgspec.to_builtins(rule) for rule in dict.fromkeys(on_paths)],
            "incomplete": bool(grants.errors),
        }
        if grants.errors:
            status["evaluationError"] = ", ".join(grants.errors)
        return make_answer(call, document, status)

    async def _review_self(self, call: Call) -> Response:
        return make_answer(call, decode_object(call), {"userInfo": user_info(call.user)})

    async def _review_token(self, call: Call) -> Response:
        document = decode_object(call)
        spec = _decode_spec(document, TokenReviewSpec)
        if not spec.token:
            raise bad_request("token is required for TokenReview in authentication")
        document["spec"] = {name: value for name, value in document["spec"].items() if name != "token"}
        try:
            owner = self._tokens.owner(spec.token, spec.audiences or AUDIENCES)
        except BadTokenError as error:
            # Upstream returns the token in its answer. This server never repeats a token.
            return make_answer(call, document, {"user": {}, "error": f"[invalid bearer token, {error}]"})
        status = {"authenticated": True, "user": user_info(owner.user), "audiences": list(owner.audiences)}
        return make_answer(call, document, status)

    def _decide_access(self, user: User, spec: "SelfSubjectAccessReviewSpec | SubjectAccessReviewSpec") -> Document:
        decision = self._rbac.decide(_make_access(user, spec.resource_attributes, spec.non_resource_attributes))
        status: Document = {"allowed": decision.allowed}
        return status | ({"reason": decision.reason} if decision.reason else {})


def decode_object(call: Call) -> Document:
    """Return the object in the body of a call. Raises `ApiError`."""
    options = write_options(call.request.query, "CreateOptions")
    return read_object(call.request, call.view, options, call.warnings)


def make_answer(call: Call, document: Document, status: Document) -> Response:
    """Return the response to a posted object: the object with this status, and the call's warnings."""
    kind = call.view.kind
    meta = document.get("metadata") or {}
    whole = {"apiVersion": kind.api_version, "kind": kind.kind} | document | {"metadata": meta, "status": status}
    return Response(201, msgspec.json.encode(whole), JSON, warning_headers(call.warnings))


def _decode_spec(document: Document, type_: type[Any]) -> Any:
    spec = document.setdefault("spec", {})
    return msgspec.convert(spec, type_)


def _require(call: Call, errors: list[FieldError]) -> None:
    kind = call.view.kind
    if errors:
        raise invalid(kind.kind, kind.group, "", errors)


def _find_attribute_errors(spec: "SelfSubjectAccessReviewSpec | SubjectAccessReviewSpec") -> list[FieldError]:
    on_resource, on_path = spec.resource_attributes, spec.non_resource_attributes
    if on_resource is not None and on_path is not None:
        sentence = "cannot be specified in combination with resourceAttributes"
        return [fields.invalid("spec.nonResourceAttributes", on_path, sentence)]
    if on_resource is None and on_path is None:
        sentence = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [fields.invalid("spec.resourceAttributes", None, sentence)]
    return []


def _find_subject_errors(spec: SubjectAccessReviewSpec) -> list[FieldError]:
    if spec.user or spec.groups:
        return []
    return [fields.invalid("spec.user", "", "at least one of user or group must be specified")]


def _make_access(user: User, on_resource: ResourceAttributes | None, on_path: NonResourceAttributes | None) -> Access:
    if on_resource is None:
        assert on_path is not None, "one of them was given"
        return Access(user, on_path.verb, path=on_path.path)
    # Only a rule for all resources grants access to an empty resource.
    plural = on_resource.resource or "*"
    resource = f"{plural}/{on_resource.subresource}" if on_resource.subresource else plural
    return Access(user, on_resource.verb, on_resource.group, resource, on_resource.namespace, on_resource.name)


def _make_user(spec: SubjectAccessReviewSpec) -> User:
    return User(spec.user, frozenset(spec.groups), spec.uid, spec.extra)
