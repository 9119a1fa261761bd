"""Define where the dashboard is served, and how a viewer is recognized there.

A viewer proves who they are once, by a credential of the API. The proof is checked again for every request of a page,
so that whoever loses the right to the API loses the pages at the same moment. What a viewer may list is asked for again
every ten seconds, also where the server follows the lists for all its viewers.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from muster.cluster.apiserver.identity.users import ADMIN, MASTERS, User
from muster.dashboard.viewing.identities import Identity
from muster.runtime.client import Client


class Proof(Struct, frozen=True, omit_defaults=True):
    """The evidence of who a viewer is; one field is set.

    certificate: the user of a client certificate that TLS has verified. authorization: the header of a request to the
    API. peer: the id of the Unix user at the other end of a local socket. owner: whether the viewer started this
    dashboard for itself. identity: the user whom a proxy in front names. until: when the certificate ends.
    """

    certificate: User | None = None
    authorization: str = ""
    peer: int | None = None
    owner: bool = False
    identity: Identity | None = None
    until: datetime | None = None


class Viewer(Struct, frozen=True):
    """A user who views the dashboard.

    key: the same for viewers who may see the same. client: makes requests with the viewer's rights. namespace: where
    the viewer's jobs are unless a page says otherwise. tunnels: the transport of streams into pods. simulations: the
    folder of the reports that the viewer may read; None for none. account: the name by which the viewer submits jobs;
    "" for the account of this process. follower: a client that follows lists for all viewers who may see them; None if
    each viewer's lists are followed separately.
    """

    name: str
    key: str
    client: Client
    namespace: str = "default"
    tunnels: Any = None
    simulations: Path | None = None
    account: str = ""
    follower: Client | None = None


class Host(Protocol):
    """The process that serves the dashboard, which knows how to recognize viewers."""

    @property
    def takes_tokens(self) -> bool:
        """Whether viewers sign in with a token on a page of the dashboard."""
        ...

    async def recognize(self, proof: Proof) -> Viewer:
        """Return the viewer whom a proof names. Raises `ApiError` (401, 403) if the proof is not valid any more."""
        ...


class OwnHost:
    """The host of `muster dashboard --kubeconfig FILE`: its one viewer has the rights of that file."""

    takes_tokens = False

    def __init__(
        self, client: Client, namespace: str, name: str, tunnels: Any = None, simulations: Path | None = None
    ) -> None:
        self._viewer = Viewer(name, name, client, namespace, tunnels, simulations)

    async def recognize(self, proof: Proof) -> Viewer:
        """Return the one viewer. Raises `ApiError` (401) unless the proof is that of the owner."""
        from muster.api.status import unauthorized

        if not proof.owner:
            raise unauthorized()
        return self._viewer


class EmbeddedHost:
    """The host of `muster up`: a viewer is a user of its API.

    identify: returns the user whom a proof names. connect: returns a client that acts as a user. place: returns the
    namespace in which a user's jobs are. simulations: the folder of the reports of the server's owner.
    """

    takes_tokens = False

    def __init__(
        self,
        identify: Callable[[Proof], Any],
        connect: Callable[[User], Client],
        place: Callable[[User], str] = lambda _: "default",
        simulations: Path | None = None,
    ) -> None:
        self._identify = identify
        self._connect = connect
        self._place = place
        self._simulations = simulations
        self._follower = connect(ADMIN)

    async def recognize(self, proof: Proof) -> Viewer:
        """Return the user of the API whom a proof names, as a viewer. Raises `ApiError` (401, 403)."""
        user = await self._identify(proof)
        client = self._connect(user)
        simulations = self._simulations if MASTERS in user.groups else None
        # Other groups are other rights, which an open page of before must not lend.
        key = "\0".join((user.name, user.uid, *sorted(user.groups)))
        place = self._place(user)
        return Viewer(user.name, key, client, place, client.transport, simulations, follower=self._follower)
