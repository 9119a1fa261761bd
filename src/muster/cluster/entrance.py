"""How a server is reached from outside: its credentials, and its address, taken before the server listens there.

Pods are told the address when they start, which may be before the server is ready to answer on it.
"""

import socket
from pathlib import Path

from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.front.https import HttpsFront, bound
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.controllers.serverservice import ServerService
from muster.cluster.controlplane import ControlPlane
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids
from muster.runtime.manager import Manager

HOST = "127.0.0.1"
PKI = "pki"  # where in its home a cluster keeps its credentials; they are made once its store is


class Entrance:
    """Used in the order of its methods, once the directory `home` is ours. Port 0 takes any free one."""

    credentials: Credentials
    _listener: socket.socket

    def __init__(self, home: Path, port: int) -> None:
        self._home = home
        self._port = port

    def trust(self) -> Trust:
        """Load the credentials, or make them. Raises `CredentialError`, `OSError`."""
        self.credentials = Credentials.load(self._home / PKI, RealClock().now(), Ids())
        return self.credentials.trust

    def variables(self) -> dict[str, str]:
        """Take the address; what tells a container where it is. Raises `AddressTaken`, `OSError`."""
        self._listener = bound(HOST, self._port)
        self._port = self._listener.getsockname()[1]
        port = str(self._port)
        return {
            "KUBERNETES_SERVICE_HOST": HOST,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }

    def announcer(self, manager: Manager) -> ServerService:
        """What keeps the service `kubernetes`, which says where the server is, once the address is taken."""
        return ServerService(manager, self._port)

    async def open(self, plane: ControlPlane) -> HttpsFront:
        """Listen. Raises `OSError`."""
        authenticator = self.credentials.authenticator(plane.access.tokens.user)
        front = HttpsFront(plane.server, authenticator, self.credentials.server_context())
        await front.listen(self._listener)
        return front

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"https://{HOST}:{self._port}"

    def close(self) -> None:
        """Give the address back, if the server came not so far as to listen there."""
        if "_listener" in vars(self):
            self._listener.close()
