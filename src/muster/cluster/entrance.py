"""Sets up how a server is reached from outside: its credentials, and its addresses.

The addresses are bound before the server listens on them. Pods get the address when they start, which may be before the
server is ready to answer on it. Pods always get the address on loopback, wherever else the server listens.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.front.application import identify_user
from muster.cluster.apiserver.front.https import HttpsFront
from muster.cluster.apiserver.front.listener import AddressUnusable, bound
from muster.cluster.apiserver.front.pages import Pages
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.cluster.controllers.clusterinfo import ClusterInfo
from muster.cluster.controllers.serverservice import ServerService
from muster.cluster.controlplane import ControlPlane
from muster.cluster.exposure import LOOPBACK, UNEXPOSED, Exposure, url, variables
from muster.cluster.localsocket import bind_local, identify_file, remove_local
from muster.cluster.unixusers import UnixUsers
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids
from muster.runtime.manager import Manager
from muster.runtime.reconciler import Reconciler

# Returns the user with a certificate, an authorization header or a Unix user id. Raises `ApiError` (401, 403).
Identify = Callable[[User | None, str, int | None], Awaitable[User]]
# Makes what is served beside the API. The last arguments are the names by which other machines reach the server, and
# its URL on this machine.
MakePages = Callable[[ControlPlane, Identify, Sequence[str], str], Pages]

PKI = "pki"  # the directory of credentials in a cluster's home, which is made after the store


class Entrance:
    """The credentials and sockets of a server. Its methods are called in order, once the directory `home` is ours.

    port: 0 for any free one.
    make_pages: makes the pages for people, beside the API.
    local: the local socket of a system server, which the users of this machine connect to; None for no such server.
    """

    credentials: Credentials

    def __init__(
        self,
        home: Path,
        port: int,
        exposure: Exposure = UNEXPOSED,
        local: Path | None = None,
        make_pages: MakePages | None = None,
    ) -> None:
        self._home = home
        self._port = port
        self._exposure = exposure
        self._local = local
        self._make_pages = make_pages
        self._local_listener: socket.socket | None = None
        self._local_file = (0, 0)
        self._listeners: dict[tuple[str, int], socket.socket] = {}  # by the requested address

    def trust(self) -> Trust:
        """Load the credentials, or make them. Raises `CredentialError`, `OSError`."""
        names = self._exposure.certified
        self.credentials = Credentials.load(self._home / PKI, RealClock().now(), Ids(), names)
        return self.credentials.trust

    def variables(self) -> dict[str, str]:
        """Bind the addresses; return the environment variables that tell a container the server's address.

        Raises `AddressUnusable`.
        """
        host, _ = self._exposure.inside(self._port)
        inside = bound(host, self._port)
        self._port = _port_of(inside)  # addresses without a port of their own get this one
        self._listeners[host, self._port] = inside
        for host, number in self._exposure.outside(self._port):
            if (host, number) not in self._listeners:
                _require_reachable(host)
                self._listeners[host, number] = bound(host, number)
        if self._local is not None:
            self._local_listener = bind_local(self._local)
            self._local_file = identify_file(self._local)
        return variables(LOOPBACK, self._port)

    def announcers(self, manager: Manager) -> Sequence[Reconciler]:
        """Return the controllers that announce the bound addresses to pods and to other machines."""
        info = self.credentials.cluster_info(self.outside or self.url)
        return ServerService(manager, self._port), ClusterInfo(manager, info)

    async def open(self, plane: ControlPlane) -> HttpsFront:
        """Listen. Raises `OSError`."""
        authenticator = self.credentials.authenticator(plane.access.tokens.user)
        users = UnixUsers(plane.client(ADMIN)) if self._local_listener is not None else None
        if users is not None:
            await users.share()
        find_peer = users.user_of if users is not None else None
        context, pages = self.credentials.server_context(), None
        if self._make_pages is not None:
            identify = partial(identify_user, authenticator, find_peer)
            pages = self._make_pages(plane, identify, self._exposure.certified, self.url)
        front = HttpsFront(plane.server, authenticator, context, find_peer, pages)
        front.follow_credentials(plane.store)
        for listener in self._listeners.values():
            await front.listen(listener)
        if self._local_listener is not None:
            await front.listen(self._local_listener)
        return front

    @property
    def url(self) -> str:
        """The URL of the server for programs of this machine."""
        return url(LOOPBACK, self._port)

    @property
    def outside(self) -> str:
        """The URL of the server for other machines; "" if they do not reach it."""
        if not self._exposure.addresses:
            return ""
        first = self._listeners[self._exposure.outside(self._port)[0]]
        return url(self._exposure.certified[0], _port_of(first))

    def close(self) -> None:
        """Close the sockets, if the server did not get as far as listening there, and remove the local one."""
        for listener in self._listeners.values():
            listener.close()
        if self._local is not None and self._local_listener is not None:
            self._local_listener.close()
            remove_local(self._local, self._local_file)


def _port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _require_reachable(host: str) -> None:
    """Refuse a host name that means loopback on this machine. Raises `AddressUnusable`."""
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        return
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        raise AddressUnusable(f"cannot listen on {host}: {error.strerror}") from error
    if ip_address(address).is_loopback:
        problem = f"{host} is {address} on this machine, which other machines cannot reach"
        raise AddressUnusable(f"{problem}: --listen its address, and --name {host}")
