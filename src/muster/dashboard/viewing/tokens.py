"""Let viewers sign in with a token of the cluster. The dashboard has no rights of its own, and acts with theirs."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256

from muster.api.status import unauthorized
from muster.dashboard.viewing.hosts import Proof, Viewer
from muster.dashboard.viewing.recognized import RecognizedViewers
from muster.runtime.client import Client
from muster.runtime.clock import Clock

_SCHEME = "Bearer "


class TokenHost:
    """The host of a cluster whose viewers sign in with tokens.

    connect: returns a client that sends a token.
    """

    takes_tokens = True

    def __init__(self, connect: Callable[[str], Client], clock: Clock, namespace: str = "default") -> None:
        self._connect = connect
        self.viewers = RecognizedViewers(clock, namespace)

    async def recognize(self, proof: Proof) -> Viewer:
        """Return the viewer whose token the proof contains, with the user name from the cluster.

        Raises `ApiError` (401) for a wrong or malformed token, and `TransportError`.
        """
        token = proof.authorization.removeprefix(_SCHEME)
        if not token or token == proof.authorization or not token.isascii() or not token.isprintable() or " " in token:
            raise unauthorized()
        return await self.viewers.find(sha256(token.encode()).hexdigest(), partial(self._connect, token))
