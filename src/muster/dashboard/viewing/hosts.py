"""Define where the dashboard is served, and how a viewer is recognized there.

A viewer signs in once, with a credential of the API. The credential is checked again for every request of a page, so
that a user who loses access to the API loses access to the pages immediately. The rights to list objects are checked
again every ten seconds, also where the server watches the lists for all viewers.
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
    """The evidence of a viewer's identity. One of the fields is set, besides `until`.

    certificate: the user of a client certificate that TLS has verified.
    authorization: the Authorization header of a request to the API.
    peer: the Unix user id at the other end of a local socket.
    owner: whether the viewer started this dashboard for themselves.
    identity: the user whom a proxy in front names.
    until: the time at which the certificate expires; None without a certificate.
    """

    certificate: User | None = None
    authorization: str = ""
    peer: int | None = None
    owner: bool = False
    identity: Identity | None = None
    until: datetime | None = None


class Viewer(Struct, frozen=True):
    """A user who views the dashboard.

    key: a key that is equal for viewers with equal rights.
    client: a client with the viewer's rights.
    namespace: the default namespace of the viewer's jobs.
    simulations: the folder of the reports that the viewer may read; None for none.
    account: the name under which the viewer submits jobs; "" for the account of this process.
    follower: a client that watches lists for all viewers who may see them; None to watch each viewer's lists
    separately.
    """

    name: str
    key: str
    client: Client
    namespace: str = "default"
    simulations: Path | None = None
    account: str = ""
    follower: Client | None = None


class Host(Protocol):
    """The process that serves the dashboard, which recognizes viewers."""

    @property
    def takes_tokens(self) -> bool:
        """Whether viewers sign in with a token on a page of the dashboard."""
        ...

    async def recognize(self, proof: Proof) -> Viewer:
        """Return the viewer whom a proof names.

        Raises `ApiError` (401, 403) if the proof is no longer valid, and `TransportError`.
        """
        ...


class OwnHost:
    """The host of `muster dashboard --kubeconfig FILE`, whose only viewer has the rights of that file."""

    takes_tokens = False

    def __init__(self, client: Client, namespace: str, name: str, simulations: Path | None = None) -> None:
        self._viewer = Viewer(name, name, client, namespace, simulations)

    async def recognize(self, proof: Proof) -> Viewer:
        """Return the only viewer. Raises `ApiError` (401) unless the proof is the owner's."""
        from muster.api.status import unauthorized

        if not proof.owner:
            raise unauthorized()
        return self._viewer


class EmbeddedHost:
    """The host of `muster up`, whose viewers are users of its API.

    identify: returns the user whom a proof names.
    connect: returns a client that acts as a user.
    place: returns the namespace of a user's jobs.
    simulations: the folder of the reports of the server's owner.
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
        # other groups mean other rights, so an older page must not share its copy
        key = "\0".join((user.name, user.uid, *sorted(user.groups)))
        place = self._place(user)
        return Viewer(user.name, key, client, place, simulations, follower=self._follower)
