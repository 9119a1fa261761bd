"""The HTTPS front of the API server: its application on a listener, with the limits and the allocator tuned for it."""

import asyncio
import ctypes
import socket
import ssl
import sys

from muster.api.core import SECRET, SERVICE_ACCOUNT
from muster.cluster.apiserver.front.application import Application
from muster.cluster.apiserver.front.connectionlimit import FindPeer
from muster.cluster.apiserver.front.flow import Flow, Limits
from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.front.pages import Pages, PlainFront
from muster.cluster.apiserver.identity.users import Authenticator
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.store import Change, Store

LIMITS = Limits()


class HttpsFront(Listener):
    """The listener that serves the API over HTTPS. It ends all watches before it closes connections."""

    def __init__(
        self,
        server: ApiServer,
        authenticator: Authenticator,
        context: ssl.SSLContext,
        pages: Pages | None = None,
        flow: Flow | None = None,
    ) -> None:
        """Make a front without an address yet.

        flow: the limits for requests; None for limits of this server alone.
        pages: the pages served next to the API, also to clients on this machine without TLS.
        """
        self.flow = flow or Flow(server.metrics, LIMITS)
        application = Application(server, authenticator, self.flow, pages)
        self._streams = application.streams
        self._pages = pages
        super().__init__(application, context, server.stop, PlainFront(pages) if pages is not None else None)

    def follow_credentials(self, store: Store) -> None:
        """From now on, end each stream of a service account when the account's token becomes invalid."""
        for kind in (SERVICE_ACCOUNT, SECRET):
            store.listen(kind.resource, self._on_credential_changed)

    def _on_credential_changed(self, change: Change) -> None:
        if change.previous is not None:  # a new object makes no token invalid
            namespace = change.entry.key.namespace
            asyncio.get_running_loop().call_soon(self._streams.end_invalid, namespace)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Accept no more requests, end all streams, and wait up to `grace_seconds` for the remaining responses."""
        await super().stop(grace_seconds)
        if self._pages is not None:
            await self._pages.close()

    async def listen(self, address: socket.socket, find_peer: FindPeer | None = None) -> int:
        """Listen on a bound socket as `Listener.listen` does. Raises `OSError`."""
        tune_allocator()
        return await super().listen(address, find_peer)


def tune_allocator() -> None:
    """Let glibc keep big blocks of memory after each list, which makes big lists three times faster."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc.mallopt(m_mmap_threshold, 32 << 20)
        libc.mallopt(m_trim_threshold, 64 << 20)
