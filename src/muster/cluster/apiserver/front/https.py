"""The HTTPS front of the API server: its application on a listener, with the limits and the allocator tuned for it."""

import ctypes
import socket
import ssl
import sys

from muster.cluster.apiserver.front.application import Application, FindPeer
from muster.cluster.apiserver.front.flow import Flow, Limits
from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.identity.users import Authenticator
from muster.cluster.apiserver.pipeline import ApiServer

LIMITS = Limits()


class HttpsFront(Listener):
    """The listener that serves the API over HTTPS. It ends all watches before it shuts connections down."""

    def __init__(
        self,
        server: ApiServer,
        authenticator: Authenticator,
        context: ssl.SSLContext,
        find_peer: FindPeer | None = None,
    ) -> None:
        """Make a front that listens nowhere yet. find_peer: returns the user at the other end of a local socket."""
        self.flow = Flow(server.metrics, LIMITS)
        super().__init__(Application(server, authenticator, self.flow, find_peer), context, server.stop)

    async def listen(self, address: socket.socket) -> int:
        """Listen on a bound socket, and return its port. Raises `OSError`."""
        tune_allocator()
        return await super().listen(address)


def tune_allocator() -> None:
    """Let glibc keep big blocks of memory after each list, which makes big lists three times faster."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc.mallopt(m_mmap_threshold, 32 << 20)
        libc.mallopt(m_trim_threshold, 64 << 20)
