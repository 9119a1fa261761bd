"""Send requests to an API server over TLS, as the user of a kubeconfig: `HttpsTransport`.

The transport retries three things: a refusal with a time to retry (429 and 503 with Retry-After); a refused connection,
if sending twice is harmless; a 401, once and if there is another credential. aiohttp itself sends GET, PUT and DELETE
once more when the connection closes before any response, because a kept connection may close at any moment. The caller,
which knows the meaning of the request, retries everything else.

Invariants: every request is limited (its time, the size of its response, the number of attempts); a secret goes into a
header or a TLS context and nowhere else; redirects are not followed, so that no credential goes to another server.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeVar
from urllib.parse import quote, urlsplit
from weakref import WeakSet

import aiohttp
from yarl import URL

from muster.api.status import ApiError
from muster.runtime.client import error_of
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.kube.credentials import ClientCertificate, Credential, Vault
from muster.runtime.kube.exec_plugins import credential_source, make_printable
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.requests import (
    CLOSED,
    MAX_CONCURRENT_REQUESTS,
    MAX_RESPONSE_BYTES,
    UnreachedError,
    fixed_headers,
    headers_of,
    no_answer,
    not_allowed,
    path_and_query,
    send_with_retries,
    too_large,
)
from muster.runtime.kube.tls import client_context, explain
from muster.runtime.transport import ClosedError, Conversation, Request, Response, TransportError

# An idle connection is kept this long; servers keep theirs longer (Kubernetes 90 s).
KEEPALIVE_SECONDS = 60.0
# For the connection with its TLS: a user at a terminal should soon get an error that a server is stopped.
CONNECT_SECONDS = 5.0
# A silently vanished peer is noticed after idle + interval * count seconds.
_TCP_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
# The loop closes a connection that was shut down within its next iterations.
_ITERATIONS_TO_CLOSE = 100

_log = logging.getLogger(__name__)

A = TypeVar("A", Response, "Response | aiohttp.ClientResponse")


class HttpsTransport:
    """A transport to one API server as one user; implements `Transport`."""

    def __init__(
        self,
        config: ConnectionConfig,
        clock: Clock,
        random: Random,
        *,
        environ: Mapping[str, str] | None = None,
        terminal: bool = False,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        stream_idle_seconds: float | None = None,
    ) -> None:
        """Make a transport, which connects when it is first used.

        environ: the environment of exec plugins; None for this process's.
        terminal: whether plugins may ask the user questions.
        max_response_bytes: the maximum size of a response.
        stream_idle_seconds: a stream without data for this long breaks with a `TransportError`; None for no limit.
        """
        source = credential_source(config, environ=os.environ if environ is None else environ, terminal=terminal)
        self.config = config
        self._clock = clock
        self._random = random
        self._vault = Vault(source, clock)
        self._max_response_bytes = max_response_bytes
        self._stream_idle_seconds = stream_idle_seconds
        self._headers = fixed_headers(config)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._answers: WeakSet[aiohttp.ClientResponse] = WeakSet()
        self._tls: tuple[ClientCertificate | None, ssl.SSLContext] | None = None
        self._closed = False

    async def request(self, request: Request) -> Response:
        """Send the request; return the response, whatever its status. Raises `TransportError` if there is none.

        The time limit of the request does not include a login for a new credential, which has its own limit.
        """
        return await self._send_authenticated(request, self._read_whole)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send the request, and yield the body in pieces as they arrive.

        Raises `ApiError` if the server refuses, `TransportError` if the connection breaks.
        """
        answer = await self._send_authenticated(request, self._read_if_failed)
        if isinstance(answer, Response):
            raise error_of(answer, request.method)
        try:
            yield _Chunks(answer, self._describe_request(request), self._stream_idle_seconds)
        finally:
            answer.close()

    @asynccontextmanager
    async def converse(self, request: Request, protocol: str) -> AsyncIterator[Conversation]:
        """Open a WebSocket. Raises `ApiError` if the server refuses, `TransportError` if the connection breaks."""
        self._require_open(request)
        credential, cluster = await self._vault.current(), self.config.cluster
        headers = [*self._headers, *([("Authorization", credential.authorization)] if credential.authorization else [])]
        try:
            socket = await self._open_session().ws_connect(
                URL(self._make_url(request), encoded=True),
                method=request.method,
                protocols=(protocol,),
                headers=headers,
                ssl=self._make_context(credential.certificate),
                server_hostname=cluster.tls_server_name or None,
                proxy=cluster.proxy_url or None,
                max_msg_size=self._max_response_bytes,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise await self._find_refusal(request, error.status) from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self._describe_request(request)}: {explain(error)}") from None
        try:
            yield _Socket(socket, self._describe_request(request))
        finally:
            await socket.close()

    async def _find_refusal(self, request: Request, status: int) -> ApiError:
        """Return why the server refused a WebSocket.

        The handshake loses the server's message. So this method sends the request again without an upgrade, and reads
        the message.

        status: the status of the handshake. If the second response has another status, the error has only this one.
        """
        answer = await self.request(request)
        if answer.status == status:
            return error_of(answer, request.method)
        return error_of(Response(status, f"{self._describe_request(request)}: HTTP {status}".encode()))

    async def close(self) -> None:
        """Close all connections. Pending requests fail."""
        self._closed = True
        await self._vault.close()
        for answer in self._answers:  # aiohttp does not wake the readers of a connection that it closes itself
            answer.content.set_exception(_ClosedHereError(CLOSED))
        if self._session is not None:
            await self._session.close()
        await self._close_lost_connections()

    async def _close_lost_connections(self) -> None:
        """Close the connections that aiohttp lost track of, because their request was cancelled during the handshake.

        Wait for a limited number of loop iterations until the loop has closed their sockets.
        """
        for connection in self._sockets:
            with suppress(OSError):  # the socket is closed already
                connection.shutdown(socket.SHUT_RDWR)
        for _ in range(_ITERATIONS_TO_CLOSE):
            if all(connection.fileno() < 0 for connection in self._sockets):
                return
            await asyncio.sleep(0)

    async def _send_authenticated(self, request: Request, read: Callable[[aiohttp.ClientResponse], Awaitable[A]]) -> A:
        self._require_open(request)
        credential = await self._vault.current()
        answer = await self._send_in_time(request, credential, read)
        if answer.status == 401 and (other := await self._vault.refuse(credential)) is not None:
            credential = other
            answer = await self._send_in_time(request, credential, read)
        if answer.status != 401:
            self._vault.accept(credential)
        return answer

    async def _send_in_time(
        self, request: Request, credential: Credential, read: Callable[[aiohttp.ClientResponse], Awaitable[A]]
    ) -> A:
        seconds = request.timeout_seconds
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(seconds), self._slots:
                answer = await self._send_with_retries(
                    request, credential, read, None if seconds is None else started + seconds
                )
        except TimeoutError:
            raise no_answer(self._describe_request(request), seconds) from None
        took = self._clock.monotonic() - started
        audit = answer.headers.get("audit-id", "")
        _log.debug(
            "%s -> %d in %.0f ms",
            self._describe_request(request),
            answer.status,
            1000 * took,
            extra={"audit_id": audit},
        )
        return answer

    async def _send_with_retries(
        self,
        request: Request,
        credential: Credential,
        read: Callable[[aiohttp.ClientResponse], Awaitable[A]],
        deadline: float | None,
    ) -> A:
        async def send() -> A:
            try:
                return await self._send_once(request, credential, read)
            except (aiohttp.ClientError, OSError) as error:
                if isinstance(error, aiohttp.ClientSSLError):
                    self._tls = None  # the next request reads the files again: they may have been rotated
                self._require_open(request)
                raise _make_connection_error(self._describe_request(request), error) from None

        return await send_with_retries(send, request.method, self._clock, lambda: self._random, deadline)

    async def _send_once(
        self, request: Request, credential: Credential, read: Callable[[aiohttp.ClientResponse], Awaitable[A]]
    ) -> A:
        """Send a request one time, and return what `read` makes of the response.

        Raises `TransportError` if the server redirects, or if this transport is closed.
        """
        self._require_open(request)  # `close` may have been called during the wait
        if request.allowed is not None and not request.allowed():
            raise not_allowed(self._describe_request(request))
        headers = [*self._headers, *headers_of(request)]
        if credential.authorization:
            headers.append(("Authorization", credential.authorization))
        cluster = self.config.cluster
        response = await self._open_session().request(
            request.method,
            URL(self._make_url(request), encoded=True),
            headers=headers,
            data=request.body or None,
            ssl=self._make_context(credential.certificate),
            server_hostname=cluster.tls_server_name or None,
            proxy=cluster.proxy_url or None,
            allow_redirects=False,
        )
        self._answers.add(response)
        try:
            self._require_open(request)  # `close` may have been called since the answer began
            if 300 <= response.status < 400:
                target = _strip_secrets(response.headers.get("Location", ""))
                problem = f"the server redirects to {target!r}; is this an API server's address?"
                raise TransportError(f"{self._describe_request(request)}: {problem}")
            return await read(response)
        except BaseException:
            response.close()
            raise

    async def _read_whole(self, response: aiohttp.ClientResponse) -> Response:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_response_bytes:
                raise too_large(f"{response.method} {response.url.path}", self._max_response_bytes)
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        response.release()
        return Response(response.status, b"".join(chunks), response.content_type, headers)

    async def _read_if_failed(self, response: aiohttp.ClientResponse) -> Response | aiohttp.ClientResponse:
        if response.status >= 300:
            return await self._read_whole(response)
        return response

    def _require_open(self, request: Request) -> None:
        """Raise `ClosedError` if this transport was closed. request: the request, for the message."""
        if self._closed:
            raise ClosedError(f"{self._describe_request(request)}: {CLOSED}") from None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._make_connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            )
        return self._session

    def _make_connector(self) -> aiohttp.BaseConnector:
        if path := self.config.cluster.local_socket:
            return aiohttp.UnixConnector(path, limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS, socket_factory=self._make_socket)

    def _make_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = _open_socket(address)
        self._sockets.add(made)
        return made

    def _make_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext | bool:
        """Return the TLS context for a client certificate; True if no connection uses TLS.

        Connections are pooled by context, so a new context leads to new connections.
        """
        cluster = self.config.cluster
        if not any(url.startswith("https://") for url in (cluster.server, cluster.proxy_url)):
            return True
        if self._tls is None or self._tls[0] != certificate:
            self._tls = (certificate, client_context(cluster, certificate))
        return self._tls[1]

    def _make_url(self, request: Request) -> str:
        return f"{self.config.cluster.server}{path_and_query(request)}"

    def _describe_request(self, request: Request) -> str:
        cluster = self.config.cluster
        return f"{request.method} {cluster.local_socket or cluster.server}{quote(request.path)}"


class _ClosedHereError(aiohttp.ClientConnectionError):
    """A stream that is read after this process has closed the transport."""


def _make_connection_error(where: str, error: Exception) -> TransportError:
    if isinstance(error, _ClosedHereError):
        return ClosedError(f"{where}: {explain(error)}")
    # After a timeout there is no retry: the wait was long enough. Nor does a retry help against a refused certificate.
    never_connected = isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError)
    return (UnreachedError if never_connected else TransportError)(f"{where}: {explain(error)}")


class _Chunks:
    """The pieces of a streamed response's body, as they arrive."""

    def __init__(self, response: aiohttp.ClientResponse, where: str, idle_seconds: float | None) -> None:
        self._response = response
        self._where = where
        self._idle_seconds = idle_seconds

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle_seconds):
                chunk = await self._response.content.readany()
        except TimeoutError:
            raise TransportError(f"{self._where}: nothing came for {self._idle_seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _make_connection_error(self._where, error) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


class _Socket:
    """A conversation over a WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, where: str) -> None:
        self._socket = socket
        self._where = where

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self._where}: {explain(error)}") from None

    async def receive(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                return b""
            data = message.data
            if data:
                return data.encode() if isinstance(data, str) else bytes(data)


def _strip_secrets(location: str) -> str:
    """Return a URL's host and path. Its user, query and fragment are left out, because they may be credentials."""
    try:
        url = urlsplit(location)
    except ValueError:
        return "?"
    return make_printable(f"{url.hostname or ''}{url.path}")


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket with TCP keepalive, because a stream may be silent for hours after its peer has disappeared."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_KEEPALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
