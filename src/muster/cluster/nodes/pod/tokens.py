"""Tokens of a pod's service account, for its projected volumes: asked for when needed, renewed before they end.

As the kubelet: a token is renewed after four fifths of its life, or after a day. Nothing of it is kept on disk but in
the volume; a server that comes back asks anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from muster.api.core import POD, SERVICE_ACCOUNT, Pod
from muster.api.server.authentication import TOKEN_REQUEST, BoundObjectReference, TokenRequest, TokenRequestSpec
from muster.cluster.nodes.container.environment import AskedToken
from muster.cluster.nodes.volumes.contents import asked_tokens
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.transport import Request

_RENEWAL = 0.8  # of a token's life
_MAX_AGE_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class _Held:
    token: str
    renew_at: float


class PodTokens:
    """The tokens of one pod."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._held: dict[AskedToken, _Held] = {}

    @property
    def due(self) -> float | None:
        """When the next renewal is, by the monotonic clock; None if there is nothing to renew."""
        return min((held.renew_at for held in self._held.values()), default=None)

    async def current(self, pod: Pod) -> Mapping[AskedToken, str]:
        """All tokens of the pod, fresh ones where need be. Raises `ApiError`, `TransportError`."""
        now = self._clock.monotonic()
        for asked in asked_tokens(pod):
            held = self._held.get(asked)
            if held is None or held.renew_at <= now:
                lasts = min(_RENEWAL * asked.seconds, _MAX_AGE_SECONDS)
                self._held[asked] = _Held(await self._request(pod, asked), now + lasts)
        return {asked: held.token for asked, held in self._held.items()}

    async def _request(self, pod: Pod, asked: AskedToken) -> str:
        meta = pod.metadata
        spec = TokenRequestSpec(
            audiences=(asked.audience,) if asked.audience else (),
            expiration_seconds=asked.seconds,
            bound_object_ref=BoundObjectReference(kind=POD.kind, api_version="v1", name=meta.name, uid=meta.uid),
        )
        path = SERVICE_ACCOUNT.path(meta.namespace, pod.spec.service_account_name or "default", "token")
        body = TOKEN_REQUEST.encode(TokenRequest(spec=spec))
        answer = await self._client.raw(Request("POST", path, body=body))
        return msgspec.json.decode(answer.body, type=TokenRequest).status.token
