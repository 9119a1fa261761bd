"""Accept viewers whom a proxy names. The dashboard acts as them by impersonation.

The API server decides whom the dashboard's account may impersonate, and authorizes each read and write with the
viewer's rights.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256

import msgspec

from muster.api.status import unauthorized
from muster.dashboard.viewing.hosts import Proof, Viewer
from muster.dashboard.viewing.identities import Identity
from muster.dashboard.viewing.recognized import RecognizedViewers
from muster.runtime.client import Client
from muster.runtime.clock import Clock


class ImpersonatingHost:
    """The host of a cluster whose viewers a proxy names.

    connect: returns a client that impersonates a user.
    """

    takes_tokens = False

    def __init__(self, connect: Callable[[Identity], Client], clock: Clock, namespace: str = "default") -> None:
        self._connect = connect
        self.viewers = RecognizedViewers(clock, namespace)

    async def recognize(self, proof: Proof) -> Viewer:
        """Return the viewer whom the proxy names, after the cluster has confirmed the user.

        Raises `ApiError` (401 without a name, 403), `TransportError`.
        """
        if proof.identity is None:
            raise unauthorized()
        key = sha256(msgspec.json.encode(proof.identity)).hexdigest()
        return await self.viewers.find(key, partial(self._connect, proof.identity))
