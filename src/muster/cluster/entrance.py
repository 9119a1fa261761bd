"""How a server is reached from outside: its credentials, and its address, taken before anybody listens there.

Pods are told the address when they start, which may be before the server is ready to answer on it.
"""

import logging
import socket
from pathlib import Path

from muster.api.core import SERVICE
from muster.api.status import ApiError
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.credentials import Credentials
from muster.cluster.apiserver.front.https import HttpsFront, bound
from muster.cluster.controlplane import ControlPlane
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids
from muster.runtime.transport import APPLY_PATCH

log = logging.getLogger(__name__)

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

    async def open(self, plane: ControlPlane) -> HttpsFront:
        """Listen, and let the service `kubernetes` say where. Raises `OSError`."""
        authenticator = self.credentials.authenticator(plane.access.tokens.user)
        front = HttpsFront(plane.server, authenticator, self.credentials.server_context())
        await front.listen(self._listener)
        try:
            await self._announce(plane.client())
        except ApiError as error:  # somebody's webhook or policy, which only those can remove who are served
            log.warning("the service of the server could not be made: %s", error)
        return front

    async def _announce(self, client: Client) -> None:
        """What looks the server up by its service finds it."""
        port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": self._port}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {"ports": [port], "type": "ClusterIP", "sessionAffinity": "None"},
        }
        kind = SERVICE.seen_as(dict)
        await client.patch(kind, "kubernetes", service, "default", type=APPLY_PATCH, force=True)

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"https://{HOST}:{self._port}"

    def close(self) -> None:
        """Give the address back, if nobody came so far as to listen there."""
        if "_listener" in vars(self):
            self._listener.close()
