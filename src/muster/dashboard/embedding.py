"""Serve the dashboard next to the API of `muster up`, at the same address.

The modules of the pages are imported with the first request for a page, because many servers never get one.
"""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from muster.api.ours.unixusers import UNIX_PREFIX, namespace_of
from muster.api.ours.users import find_home_namespace
from muster.cluster.apiserver.front.asgi import Receive, Scope, Send
from muster.cluster.apiserver.front.pages import Pages
from muster.cluster.apiserver.identity.users import User
from muster.cluster.controlplane import ControlPlane
from muster.cluster.entrance import Connect, Identify
from muster.dashboard.root import ROOT

if TYPE_CHECKING:
    from muster.dashboard.app import Dashboard
    from muster.dashboard.viewing.hosts import Proof

_PEER_SECONDS = 10.0

SESSIONS = "dashboard-sessions.json"
"""The file in a home that lets open pages go on when the server starts again."""
SIMULATIONS = "simulations"
"""The folder in a home with a folder for each report of a simulation."""


def make_pages(
    home: Path, plane: ControlPlane, identify: Identify, connect: Connect, names: Sequence[str], url: str
) -> Pages:
    """Return the dashboard's pages for the API server of an embedded cluster.

    identify: returns the user of a request.
    connect: returns a client that acts as a user.
    names: the names under which other machines reach the server.
    url: the URL of the API on this machine.
    """
    embedded = _Embedded(home, plane, identify, connect, names, url.replace("https:", "http:", 1))
    return Pages(ROOT, embedded.answer, embedded.close)


class _Embedded:
    """The dashboard of one server, created at the first request."""

    def __init__(
        self,
        home: Path,
        plane: ControlPlane,
        identify: Identify,
        connect: Connect,
        names: Sequence[str],
        address: str,
    ) -> None:
        self._home, self._plane, self._connect = home, plane, connect
        self._identify, self._names, self._address = identify, names, address
        self._dashboard: Dashboard | None = None
        self._peers: dict[int, tuple[float, User]] = {}  # by Unix user id: the end of validity, and the user

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; create the dashboard first if it does not exist."""
        dashboard = self._dashboard or await self._open()
        await dashboard(scope, receive, send)

    async def close(self) -> None:
        """Close the dashboard, if it was created."""
        if self._dashboard is not None:
            await self._dashboard.close()

    async def _open(self) -> "Dashboard":
        await asyncio.to_thread(import_module, "muster.dashboard.app")
        if self._dashboard is None:  # a concurrent request may have created it in the meantime
            self._dashboard = self._make()
        return self._dashboard

    def _make(self) -> "Dashboard":
        from muster.dashboard.app import Dashboard
        from muster.dashboard.viewing.hosts import EmbeddedHost
        from muster.dashboard.viewing.sessions import Sessions

        clock, random = self._plane.inputs.clock, self._plane.inputs.random
        host = EmbeddedHost(
            self._find_user,
            self._connect,
            find_namespace,
            self._home / SIMULATIONS,
        )
        # Browsers send a cookie to all servers on a host, whatever their port, so each server's cookie has another
        # name.
        name = f"muster-{sha256(str(self._home.absolute()).encode()).hexdigest()[:8]}"
        sessions = Sessions(clock, self._home / SESSIONS)
        return Dashboard(host, sessions, clock, random, hosts=self._names, name=name, address=self._address)

    async def _find_user(self, proof: "Proof") -> User:
        """Return the user whom a proof names. Raises `ApiError` (401, 403).

        A Unix user is cached for a few seconds, because the lookup needs a thread.
        """
        now = self._plane.inputs.clock.monotonic()
        if proof.peer is not None and proof.peer in self._peers and self._peers[proof.peer][0] > now:
            return self._peers[proof.peer][1]
        user = await self._identify(proof.certificate, proof.authorization, proof.peer)
        if proof.peer is not None:
            self._peers[proof.peer] = now + _PEER_SECONDS, user
        return user


def find_namespace(user: User) -> str:
    """Return the namespace of a user's jobs: that of the service account or the Unix user, else `default`."""
    if not user.name.startswith(UNIX_PREFIX):
        return find_home_namespace(user.name) or "default"
    return namespace_of(user.name.removeprefix(UNIX_PREFIX), int(user.uid))
