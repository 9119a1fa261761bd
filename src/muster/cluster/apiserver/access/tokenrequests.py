"""Answer `serviceaccounts/token`, by which a client requests a token of a service account.

As in k8s.io/kubernetes (pkg/registry/core/serviceaccount/storage/token.go), the object that the token is bound to must
exist, and a pod must run as this account. `rbac` has already decided that the client may request the token.
"""

from datetime import timedelta
from typing import Any

import msgspec

from muster.api.core import NODE, POD, SECRET, SERVICE_ACCOUNT
from muster.api.kinds import Kind
from muster.api.server.authentication import BoundObjectReference, TokenRequestSpec
from muster.api.status import FieldError, bad_request, conflict, invalid, not_found
from muster.api.validation import fields
from muster.cluster.apiserver.access.reviews import decode_object, make_answer
from muster.cluster.apiserver.access.tokens import AUDIENCES, BoundReference, Tokens, TokenSubject, claims_of
from muster.cluster.apiserver.objects.metadata import format_timestamp
from muster.cluster.apiserver.request.call import Call
from muster.cluster.store import Entry, Key, Store
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.transport import Response

DEFAULT_SECONDS = 3600
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32
ACTION = f"{SERVICE_ACCOUNT.resource}/token"

_BOUND: dict[tuple[str, str], Kind[Any]] = {("v1", "Pod"): POD, ("v1", "Secret"): SECRET, ("v1", "Node"): NODE}


class TokenRequests:
    """The action that answers requests for tokens."""

    def __init__(self, store: Store, tokens: Tokens, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock
        self._ids = ids

    async def create(self, call: Call) -> Response:
        """Answer a TokenRequest with a token for the service account in the URL.

        Raises `ApiError` (400, 404, 409, 422).
        """
        document = decode_object(call)
        meta = document.setdefault("metadata", {})
        if meta.get("name") not in (None, "", call.name):
            raise bad_request(
                f"must match metadata.name of the URL: the token is requested of {call.name}, not of {meta['name']}"
            )
        if meta.get("namespace") not in (None, "", call.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        spec = msgspec.convert(document.setdefault("spec", {}), TokenRequestSpec)
        if errors := _find_errors(spec):
            raise invalid("TokenRequest", call.view.kind.group, "", errors)
        entry = self._store.get(Key(SERVICE_ACCOUNT.resource, call.namespace, call.name))
        if entry is None:
            raise not_found(SERVICE_ACCOUNT.resource, call.name)
        account = BoundReference("ServiceAccount", call.name, entry.header.uid)
        bound = self._resolve_bound(call, spec.bound_object_ref) if spec.bound_object_ref else ()
        audiences = spec.audiences or AUDIENCES
        seconds = DEFAULT_SECONDS if spec.expiration_seconds is None else spec.expiration_seconds
        now = self._clock.now()
        subject = TokenSubject(call.namespace, account, bound)
        token = self._tokens.key.sign(claims_of(subject, audiences, now, seconds, self._ids.uid()))
        document["metadata"] = meta | {
            "name": call.name,
            "namespace": call.namespace,
            "creationTimestamp": format_timestamp(now),
        }
        document["spec"] |= {"audiences": list(audiences), "expirationSeconds": seconds}
        document["spec"].setdefault("boundObjectRef", None)
        end = format_timestamp(now + timedelta(seconds=seconds))
        return make_answer(call, document, {"token": token, "expirationTimestamp": end})

    def _resolve_bound(self, call: Call, bound: BoundObjectReference) -> tuple[BoundReference, ...]:
        """Return the objects that the token is bound to: the requested one, and for a pod also its node.

        Raises `ApiError` (400, 404, 409).
        """
        kind = _BOUND.get((bound.api_version, bound.kind))
        if kind is None:
            name = f"{bound.api_version}, Kind={bound.kind}"
            raise bad_request(f"cannot bind token to object of type {name}")
        entry = self._require_entry(Key(kind.resource, call.namespace if kind.namespaced else "", bound.name))
        if bound.uid not in ("", entry.header.uid):
            message = (
                f"the UID in the bound object reference ({bound.uid}) does not match the UID in record. "
                f"The object might have been deleted and then recreated"
            )
            raise conflict(kind.resource, bound.name, message)
        reference = BoundReference(bound.kind, bound.name, entry.header.uid)
        if kind is not POD:
            return (reference,)
        if entry.header.fields.get("spec.serviceAccountName") != call.name:
            raise bad_request(
                f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
            )
        node = self._store.get(Key(NODE.resource, "", entry.header.fields.get("spec.nodeName", "")))
        return (reference, BoundReference("Node", node.key.name, node.header.uid)) if node else (reference,)

    def _require_entry(self, key: Key) -> Entry:
        entry = self._store.get(key)
        if entry is None:
            raise not_found(key.resource, key.name)
        return entry


def _find_errors(spec: TokenRequestSpec) -> list[FieldError]:
    seconds = spec.expiration_seconds
    if seconds is not None and seconds < MIN_SECONDS:
        return [fields.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")]
    if seconds is not None and seconds > MAX_SECONDS:
        return [
            fields.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        ]
    return []
