"""Set up how clients reach a server: its credentials and its addresses.

The addresses are bound before the server listens on them. Pods get the address when they start, which may be before the
server answers on it. Pods always get the loopback address, wherever else the server listens.
"""

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from muster.api.ours.unixusers import HOME_SOCKET
from muster.api.status import forbidden
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.front.connectionlimit import FindPeer
from muster.cluster.apiserver.front.flow import Flow
from muster.cluster.apiserver.front.https import LIMITS, HttpsFront
from muster.cluster.apiserver.front.listener import AddressUnusable, bind_socket
from muster.cluster.apiserver.front.pages import Pages
from muster.cluster.apiserver.front.seated import SeatedTransport
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import ADMIN, Authenticator, User
from muster.cluster.controllers.endpoints.clusterinfo import ClusterInfo
from muster.cluster.controllers.endpoints.serverservice import ServerService
from muster.cluster.controlplane import ControlPlane
from muster.cluster.exposure import LOOPBACK, UNEXPOSED, Exposure, make_url, make_variables
from muster.cluster.localsocket import FOR_ALL, FOR_OWNER, AddressForeign, LocalSocket
from muster.cluster.store.directory import PKI
from muster.cluster.unixusers import UnixUsers
from muster.runtime.client import Client
from muster.runtime.clock import Clock, RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.ids import Ids
from muster.runtime.kube.kubeconfig import KubeconfigError

# Returns the user with a certificate, an authorization header or a Unix user id. Raises `ApiError` (401, 403).
Identify = Callable[[User | None, str, int | None], Awaitable[User]]
# Returns the client that acts for a user of the pages.
Connect = Callable[[User], Client]
# Makes the pages served next to the API. The last arguments are the names by which other machines reach the server, and
# its URL on this machine.
MakePages = Callable[[ControlPlane, Identify, Connect, Sequence[str], str], Pages]
log = logging.getLogger(__name__)

# How often, and after which pause, a start tries to get the port of the last one.
_LAST_PORT_TRIES, _LAST_PORT_SECONDS = 10, 0.1


class Entrance:
    """The credentials and sockets of a server. Call its methods in their order, after the directory `home` is locked.

    port: the port to listen on; 0 for any free port.
    make_pages: makes the pages for people, next to the API.
    local: the local socket of a system server, to which the users of this machine connect; None for other servers.
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
        self._local_socket: LocalSocket | None = None  # for all users of the machine
        self._home_socket: LocalSocket | None = None  # for the user of the server
        self._listeners: dict[tuple[str, int], socket.socket] = {}  # by the requested address

    def trust(self) -> Trust:
        """Load the credentials, or create them. Raises `CredentialError`, `OSError`."""
        names = self._exposure.certified
        self.credentials = Credentials.load(self._home / PKI, RealClock().now(), Ids(), names)
        return self.credentials.trust

    def variables(self) -> dict[str, str]:
        """Bind the addresses; return the environment variables that tell a container the server's address.

        Raises `AddressUnusable`.
        """
        host, _ = self._exposure.inside(self._port)
        inside = bind_socket(host, self._port, "--port")
        self._port = _get_port(inside)  # addresses without a port of their own get this one
        self._listeners[host, self._port] = inside
        for host, number in self._exposure.outside(self._port):
            if (host, number) not in self._listeners:
                _require_reachable(host)
                option = "--port" if number == self._port else "--listen"
                self._listeners[host, number] = bind_socket(host, number, option)
        if self._local is not None:
            self._local_socket = LocalSocket.bind(self._local, FOR_ALL)
        self._home_socket = bind_in_home(self._home)
        return make_variables(LOOPBACK, self._port)

    def announcers(self, manager: Manager) -> Sequence[Reconciler]:
        """Return the controllers that publish the bound addresses to pods and to other machines."""
        info = self.credentials.cluster_info(self.outside or self.url)
        return ServerService(manager, self._port), ClusterInfo(manager, info)

    async def open(self, plane: ControlPlane) -> HttpsFront:
        """Start to listen for clients of the control plane; return the listener. Raises `OSError`."""
        authenticator = self.credentials.authenticator(plane.access.tokens.user)
        users = UnixUsers(plane.client(ADMIN)) if self._local_socket is not None else None
        context, flow, pages = self.credentials.server_context(), Flow(plane.server.metrics, LIMITS), None
        if self._make_pages is not None:
            identify = partial(_identify, authenticator, users.user_of if users is not None else find_owner)
            connect = partial(connect_viewer, plane, flow)
            pages = self._make_pages(plane, identify, connect, self._exposure.certified, self.url)
        front = HttpsFront(plane.server, authenticator, context, pages, flow)
        front.follow_credentials(plane.store)
        for listener in self._listeners.values():
            await front.listen(listener)
        if self._local_socket is not None and users is not None:
            await users.share()
            await front.listen(self._local_socket.listener, users.user_of)
        if self._home_socket is not None:
            await front.listen(self._home_socket.listener, find_owner)
        return front

    @property
    def url(self) -> str:
        """The URL of the server for programs on this machine."""
        return make_url(LOOPBACK, self._port)

    @property
    def outside(self) -> str:
        """The URL of the server for other machines; "" if other machines cannot reach the server."""
        if not self._exposure.addresses:
            return ""
        first = self._listeners[self._exposure.outside(self._port)[0]]
        return make_url(self._exposure.certified[0], _get_port(first))

    def close(self) -> None:
        """Close the sockets that are not in use yet, and remove the local sockets."""
        for listener in self._listeners.values():
            listener.close()
        for local in filter(None, (self._local_socket, self._home_socket)):
            local.close()


def connect_viewer(plane: ControlPlane, flow: Flow, user: User) -> Client:
    """Return the client with which the pages act for a user.

    Its requests count against the user's own share of the server.
    """
    transport = SeatedTransport(plane.server, user, flow)
    return Client(transport, field_manager="muster-dashboard", neighbor=transport)


async def _identify(
    authenticator: Authenticator, find_peer: FindPeer, certificate: User | None, authorization: str, peer: int | None
) -> User:
    """Return the user that these credentials authenticate, as for a request to the API.

    peer: the user ID of a local socket's client; None for other connections.

    Raises `ApiError` (401, 403).
    """
    return await find_peer(peer) if peer is not None else authenticator.user(certificate, authorization)


async def find_owner(uid: int) -> User:
    """Return the administrator if `uid` is the user of this process. Raises `ApiError` (403) for any other user."""
    if uid != os.geteuid():
        raise forbidden(f"this socket serves the user with the id {os.geteuid()} alone, and you have the id {uid}")
    return ADMIN


def bind_in_home(home: Path) -> LocalSocket | None:
    """Bind the socket for the user's own commands in the home; None if the system allows no socket there.

    Raises `AddressForeign` if another user has put a socket there. Without the socket, commands connect over TLS: the
    path of a socket has at most 107 bytes, and some file systems have no sockets.
    """
    try:
        return LocalSocket.bind(home / HOME_SOCKET, FOR_OWNER)
    except AddressForeign:
        raise
    except AddressUnusable as error:
        log.info("commands come over TLS: %s", error)
        return None


async def find_free_port(home: Path, exposure: Exposure, clock: Clock) -> int:
    """Return the port of the last start if it is free, because users have it in their kubeconfigs; otherwise 0.

    A server that was just killed may occupy its port a little longer than its home.
    """
    last = find_last_port(home)
    for _ in range(_LAST_PORT_TRIES if last else 0):
        with suppress(AddressUnusable):
            for host, port in {exposure.inside(last), *exposure.outside(last)}:
                if port == last:
                    bind_socket(host, port).close()
            return last
        await clock.sleep(_LAST_PORT_SECONDS)
    return 0


def find_last_port(home: Path) -> int:
    """Return the port of the last start, from the kubeconfig in the home; 0 if there is none."""
    if not (kubeconfig := home / "kubeconfig").exists():
        return 0
    from muster.runtime.kube.kubeconfig_files import read  # loads the YAML library, not needed at a first start

    try:
        return urlsplit(read(kubeconfig).connection().cluster.server).port or 0
    except (KubeconfigError, ValueError):
        return 0


def _get_port(listener: socket.socket) -> int:
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
