"""Cache the viewers whom a cluster has recognized, each with a client that acts as the viewer."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.ours.users import find_home_namespace, short_user
from muster.api.status import ApiError, unauthorized
from muster.dashboard.viewing.hosts import Viewer
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.transport import JSON, Request, TransportError

_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
# The seconds for which a viewer stays recognized, so that not every part of a page queries the server.
TRUSTED_SECONDS = 10.0
_MOST_KNOWN = 500


class _Known(Struct, frozen=True):
    viewer: Viewer
    until: float


class RecognizedViewers:
    """The viewers of one cluster who were recognized recently, up to a maximum number.

    namespace: the namespace of a viewer's jobs, unless the viewer's name implies another.
    """

    def __init__(self, clock: Clock, namespace: str) -> None:
        self._clock = clock
        self._namespace = namespace
        self._known: dict[str, _Known] = {}

    async def find(self, key: str, connect: Callable[[], Client]) -> Viewer:
        """Return the viewer with this key, after querying the cluster for the name of the client's user.

        connect: creates the client of a viewer who is not cached.

        The name is cached for some time. Raises `ApiError` (401, 403), `TransportError`.
        """
        now = self._clock.monotonic()
        known = self._known.get(key)
        if known is not None and known.until > now:
            return known.viewer
        client = known.viewer.client if known is not None else connect()
        try:
            name = await _find_name(client)
        except (ApiError, TransportError) as error:
            is_refused = isinstance(error, ApiError) and error.code in (401, 403)
            if known is None or is_refused:
                self._known.pop(key, None)
                await client.transport.close()
            raise
        meanwhile = self._known.pop(key, None)
        if known is None and meanwhile is not None:  # a concurrent request has recognized the viewer in the meantime
            await client.transport.close()
            client = meanwhile.viewer.client
        while len(self._known) >= _MOST_KNOWN:
            await self._known.pop(next(iter(self._known))).viewer.client.transport.close()
        namespace = find_home_namespace(name) or self._namespace
        viewer = Viewer(name, key, client, namespace, account=short_user(name))
        self._known[key] = _Known(viewer, now + TRUSTED_SECONDS)
        return viewer

    def forget(self) -> None:
        """Make `find` query the cluster again for each viewer."""
        self._known = {key: msgspec.structs.replace(one, until=0.0) for key, one in self._known.items()}


async def _find_name(client: Client) -> str:
    """Return the name of a client's user. Raises `ApiError` (401 if no user is named), `TransportError`."""
    answer = await client.raw(Request("POST", _REVIEWS, body=_REVIEW, content_type=JSON))
    user: Any = msgspec.json.decode(answer.body).get("status", {}).get("userInfo", {})
    name = str(user.get("username", ""))
    if not name or "system:unauthenticated" in (user.get("groups") or ()):
        raise unauthorized()
    return name
