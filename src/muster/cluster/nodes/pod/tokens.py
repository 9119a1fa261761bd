"""Request tokens of a pod's service account for its projected volumes, and renew them before they expire.

As with the kubelet, a token is renewed after four fifths of its lifetime, or after a day. A token is only stored in the
volume; a restarted server requests new tokens.
"""

from collections.abc import Mapping

import msgspec

from muster.api.core import POD, SERVICE_ACCOUNT, Pod
from muster.api.server.authentication import TOKEN_REQUEST, BoundObjectReference, TokenRequest, TokenRequestSpec
from muster.cluster.nodes.container.environment import AskedToken
from muster.cluster.nodes.volumes.contents import list_requested_tokens
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.transport import Request

_RENEWAL = 0.8  # the part of a token's lifetime after which it is renewed
_MAX_AGE_SECONDS = 24 * 3600.0


class _CachedToken(msgspec.Struct, frozen=True):
    token: str
    renew_at: float


class PodTokens:
    """The service account tokens that one pod's volumes show, cached until their renewal."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._cached: dict[AskedToken, _CachedToken] = {}

    @property
    def due(self) -> float | None:
        """The time of the next renewal, by the monotonic clock; None if there is nothing to renew."""
        return min((cached.renew_at for cached in self._cached.values()), default=None)

    async def get_tokens(self, pod: Pod) -> Mapping[AskedToken, str]:
        """Return all tokens that the pod's volumes request; fetch missing ones, and new ones for those due for renewal.

        Raises `ApiError`, `TransportError`.
        """
        now = self._clock.monotonic()
        for request in list_requested_tokens(pod):
            cached = self._cached.get(request)
            if cached is None or cached.renew_at <= now:
                lasts = min(_RENEWAL * request.seconds, _MAX_AGE_SECONDS)
                self._cached[request] = _CachedToken(await self._request_token(pod, request), now + lasts)
        return {request: cached.token for request, cached in self._cached.items()}

    async def _request_token(self, pod: Pod, request: AskedToken) -> str:
        meta = pod.metadata
        spec = TokenRequestSpec(
            audiences=(request.audience,) if request.audience else (),
            expiration_seconds=request.seconds,
            bound_object_ref=BoundObjectReference(kind=POD.kind, api_version="v1", name=meta.name, uid=meta.uid),
        )
        path = SERVICE_ACCOUNT.path(meta.namespace, pod.spec.service_account_name or "default", "token")
        body = TOKEN_REQUEST.encode(TokenRequest(spec=spec))
        answer = await self._client.raw(Request("POST", path, body=body))
        return msgspec.json.decode(answer.body, type=TokenRequest).status.token
