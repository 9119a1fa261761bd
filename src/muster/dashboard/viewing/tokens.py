"""Lets viewers sign in with a token of the cluster: the dashboard has no rights of its own, and acts with theirs."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.ours.users import find_home_namespace
from muster.api.status import ApiError, unauthorized
from muster.dashboard.viewing.hosts import Proof, Viewer
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.transport import JSON, Request, TransportError

_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
# For so long the server's word on a token counts, so that each piece of a page does not ask again.
TRUSTED_SECONDS = 10.0
_MOST_KNOWN = 500
_SCHEME = "Bearer "


class _Known(Struct, frozen=True):
    viewer: Viewer
    until: float


class TokenHost:
    """A cluster whose viewers sign in with tokens. connect: returns a client that sends a token."""

    takes_tokens = True

    def __init__(self, connect: Callable[[str], Client], clock: Clock, namespace: str = "default") -> None:
        self._connect = connect
        self._clock = clock
        self._namespace = namespace
        self._known: dict[str, _Known] = {}

    async def recognize(self, proof: Proof) -> Viewer:
        """Return whose token it is, as the cluster says. Raises `ApiError` (401), `TransportError`."""
        token = proof.authorization.removeprefix(_SCHEME)
        if not token or token == proof.authorization or not token.isascii() or not token.isprintable() or " " in token:
            raise unauthorized()
        key, now = sha256(token.encode()).hexdigest(), self._clock.monotonic()
        known = self._known.get(key)
        if known is not None and known.until > now:
            return known.viewer
        client = known.viewer.client if known is not None else self._connect(token)
        try:
            name = await _find_name(client)
        except (ApiError, TransportError) as error:
            is_refused = isinstance(error, ApiError) and error.code in (401, 403)
            if known is None or is_refused:
                self._known.pop(key, None)
                await client.transport.close()
            raise
        meanwhile = self._known.pop(key, None)
        if known is None and meanwhile is not None:  # another request asked at the same time
            await client.transport.close()
            client = meanwhile.viewer.client
        while len(self._known) >= _MOST_KNOWN:
            await self._known.pop(next(iter(self._known))).viewer.client.transport.close()
        viewer = Viewer(name, key, client, find_home_namespace(name) or self._namespace, client.transport)
        self._known[key] = _Known(viewer, now + TRUSTED_SECONDS)
        return viewer


async def _find_name(client: Client) -> str:
    """Return the name of the user of a client. Raises `ApiError` (401 for nobody), `TransportError`."""
    answer = await client.raw(Request("POST", _REVIEWS, body=_REVIEW, content_type=JSON))
    user: Any = msgspec.json.decode(answer.body).get("status", {}).get("userInfo", {})
    name = str(user.get("username", ""))
    if not name or "system:unauthenticated" in (user.get("groups") or ()):
        raise unauthorized()
    return name
