"""The HTTPS front: requests from the wire become requests to the pipeline, and answers go back.

ASGI and uvicorn are known here and in `connections` alone.
"""

import asyncio
import ctypes
import errno
import logging
import socket
import ssl
import sys
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from uvicorn.server import ServerState

from muster.api.status import ApiError, Status, bad_request
from muster.cluster.apiserver.answers import Answer, Stream, Tunnel, refusal
from muster.cluster.apiserver.connections import EXTENSION, MAX_UNSENT_BYTES, Connection, Unsent
from muster.cluster.apiserver.crowd import MAX_CONNECTIONS, Crowd, Guest
from muster.cluster.apiserver.decode import ReadAhead, takes_long
from muster.cluster.apiserver.door import Door
from muster.cluster.apiserver.exchange import Exchange
from muster.cluster.apiserver.flow import Flow, Limits, Shares, room_for, seats_for
from muster.cluster.apiserver.incoming import Body, Receive
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.request import as_list, is_long_running, timeout
from muster.cluster.apiserver.tunnels.takeover import hold
from muster.cluster.apiserver.users import Authenticator, User
from muster.runtime.transport import Request, Response

LIMITS = Limits()
REQUEST_SECONDS = 60.0  # for an answer, or for a stream to begin
KEEP_ALIVE_SECONDS = 180  # clients let go of idle connections after 90 s and less
GZIP_FROM_BYTES = 128 * 1024  # as kube-apiserver; below it costs more than it saves
PIECE_BYTES = 1 << 20  # of an answer, given to the connection at a time
MAX_QUERY_BYTES = 32 * 1024
MAX_QUERY_FIELDS = 100
MAX_AUDIT_ID_BYTES = 64  # that a client may choose; the rest is cut off, as upstream does

_AUDIT_ID = b"audit-id"

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class AddressTaken(Exception):  # noqa: N818  (it says what is)
    """Another process listens there; the text says where and what to do."""


class Application:
    """The ASGI application.

    A request is known by its headers, and refused by them if it can be. Only then its body is read, and only when that
    is there the request takes a seat: who may nothing, or is slow, takes nothing from others.
    """

    def __init__(self, server: ApiServer, authenticator: Authenticator, flow: Flow) -> None:
        self._server = server
        self._authenticator = authenticator
        self._flow = flow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        connection: Connection = scope["extensions"][EXTENSION]
        headers = dict(reversed(scope["headers"]))  # of several of a name, the first
        headers[_AUDIT_ID] = headers.get(_AUDIT_ID, b"")[:MAX_AUDIT_ID_BYTES] or self._server.ids.uid().encode()
        body = Body(scope["method"], headers, receive)
        with ExitStack() as taken:
            try:
                request = _request(scope, headers, connection)
                user = self._user(connection, request, headers)
                connection.guest.owner = user.name
                exchange = self._server.begin(request, user)
                answer = await self._answer(exchange, body, connection, taken)
            except ApiError as error:
                answer = _refused(error)
            except asyncio.CancelledError:
                if connection.transport.is_closing():
                    return
                raise
            await _send(answer, scope, headers, body, connection, send)

    def _user(self, connection: Connection, request: Request, headers: Mapping[bytes, bytes]) -> User:
        """Who asks. Raises `ApiError` (401)."""
        try:
            return self._authenticator.user(connection.user, _text(headers, b"authorization"))
        except ApiError:
            self._server.not_known(request)
            raise

    async def _answer(self, exchange: Exchange, body: Body, connection: Connection, taken: ExitStack) -> Answer:
        if exchange.refused is not None:
            return exchange.refused
        try:
            seconds = await self._admit(exchange, body, connection, taken)
        except ApiError as error:
            return exchange.failed(error)
        except asyncio.CancelledError:
            exchange.given_up()
            raise
        if seconds is None:
            return await self._server.answer(exchange)
        try:
            async with asyncio.timeout(seconds):
                return await self._server.answer(exchange)
        except TimeoutError:
            return refusal(_timeout("request did not complete within the allotted timeout"))

    async def _admit(self, exchange: Exchange, body: Body, connection: Connection, taken: ExitStack) -> float | None:
        """Read the body, and wait until the request may go on; returns how long it may take.

        What it was lent is given back when `taken` is left. Raises `ApiError` (400, 408, 413, 429).
        """
        request, flow, user = exchange.request, self._flow, exchange.user
        method, path, query = request.method, request.path, request.query
        size = body.most
        if is_stream := is_long_running(method, path, query):
            seconds: float | None = REQUEST_SECONDS
            flow.open_stream(user)
            taken.callback(flow.close_stream, user)
        else:  # a GET waits for nothing but its turn
            seconds = None if method == "GET" and "timeout" not in query else timeout(query, REQUEST_SECONDS)
        if size:
            await _take(flow.room, user, room_for(size), connection, taken)
            content = await body.read()
            if takes_long(content, request.content_type):
                content = await self._read_ahead(content, exchange, connection)
            exchange.body_came(content)
        if not is_stream and (seats := seats_for(method, path, query.get("limit", ""), size)):
            await _take(flow.seats, user, seats, connection, taken)
        return seconds

    async def _read_ahead(self, content: bytes, exchange: Exchange, connection: Connection) -> bytes:
        """Read in a thread what takes long: the loop goes on. One at a time, users in turn. Raises `ApiError` (429)."""
        with ExitStack() as taken:
            await _take(self._flow.readers, exchange.user, 1, connection, taken)
            return await asyncio.to_thread(ReadAhead.of, content, exchange.request.content_type)


async def _take(shares: Shares, user: str, count: int, connection: Connection, taken: ExitStack) -> None:
    """Borrow so many. Raises `ApiError` (429)."""
    lent = shares.take_at_once(user, count)
    if not lent:
        connection.streaming = asyncio.current_task()  # who hangs up need not wait
        try:
            lent = await shares.take(user, count)
        finally:
            connection.streaming = None
    taken.callback(shares.give_back, user, lent)


def _request(scope: Scope, headers: Mapping[bytes, bytes], connection: Connection) -> Request:
    """What is asked for, but for the body. Raises `ApiError` (400)."""
    path, query = as_list(scope["path"], _query(scope["query_string"]))
    request = Request(
        scope["method"],
        path,
        query,
        b"",
        _text(headers, b"content-type"),
        _text(headers, b"accept"),
        user_agent=_text(headers, b"user-agent"),
        headers=_on_behalf(scope["headers"]),
        audit_id=_text(headers, _AUDIT_ID),
    )
    return replace(request, lists=_lists(scope["query_string"])) if connection.is_upgrade else request


async def _send(
    answer: Answer, scope: Scope, headers: Mapping[bytes, bytes], body: Body, connection: Connection, send: Send
) -> None:
    if isinstance(answer, Tunnel):
        try:
            await hold(answer, scope["headers"], connection)
        except ApiError as error:
            answer = refusal(error)
        else:
            return
    if isinstance(answer, Stream):
        await _stream(answer, headers, connection, send)
    elif body.is_over:
        await _respond(_last(answer) if connection.is_upgrade else answer, headers, connection, send)
    else:
        await _respond_early(answer, headers, body, connection, send)


async def _respond_early(
    answer: Response, headers: Mapping[bytes, bytes], body: Body, connection: Connection, send: Send
) -> None:
    """Answer a client that is still sending."""
    if body.is_short:
        await body.skip()
        await _respond(answer if body.is_over else _last(answer), headers, connection, send)
        return

    async def send_and_wait(message: dict[str, Any]) -> None:
        """Closed at once, the connection would take the answer with it: the client has not read it."""
        if message["type"] == "http.response.body" and not message.get("more_body"):
            await send({**message, "more_body": True})
            await body.skip()
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    await _respond(_last(answer), headers, connection, send_and_wait)


def _refused(error: ApiError) -> Response:
    """The answer to a request of which is not known who asks, or what."""
    answer = refusal(error)
    return replace(answer, headers={**answer.headers, "www-authenticate": "Bearer"}) if error.code == 401 else answer


def _on_behalf(headers: list[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers that ask to be taken for somebody else."""
    return tuple(
        [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name[:12] == b"impersonate-"]
    )


def _timeout(message: str) -> ApiError:
    # Nobody is told to try again by himself: what was to be written may have been written.
    return ApiError(Status(status="Failure", code=504, reason="Timeout", message=f"Timeout: {message}"))


def _last(answer: Response) -> Response:
    """An answer with which the connection ends: after it, nobody knows which protocol the client speaks."""
    return replace(answer, headers={**answer.headers, "connection": "close"})


def _lists(raw: bytes) -> Mapping[str, tuple[str, ...]]:
    """All values of every parameter of a query that can be read."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in parse_qsl(raw.decode("ascii"), keep_blank_values=True):
        found[name] = (*found.get(name, ()), value)
    return found


@lru_cache(maxsize=256)
def _query(raw: bytes) -> Mapping[str, str]:
    """The first value of every parameter. Raises `ApiError` (400)."""
    if not raw:
        return {}
    if len(raw) > MAX_QUERY_BYTES:
        raise bad_request(f"the query is longer than {MAX_QUERY_BYTES} bytes")
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
    except ValueError as error:
        raise bad_request(f"the query cannot be read: {error}") from None
    return dict(reversed(pairs))


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    value = headers.get(name)
    return value.decode("latin-1") if value else ""


async def _respond(answer: Response, headers: Mapping[bytes, bytes], connection: Connection, send: Send) -> None:
    body, status = answer.body, answer.status
    fields = [(b"content-type", answer.content_type.encode("latin-1")), (_AUDIT_ID, headers[_AUDIT_ID])]
    fields += [(name.encode("latin-1"), value.encode()) for name, value in answer.headers.items()]
    etag = answer.headers.get("etag")
    if etag and _text(headers, b"if-none-match") == etag:
        body, status = b"", 304
    if len(body) >= GZIP_FROM_BYTES and _takes_gzip(headers.get(b"accept-encoding", b"")):
        # Compressing lets go of the interpreter: the loop goes on meanwhile.
        body = await asyncio.to_thread(_compress, body)
        fields += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    if "cache-control" not in answer.headers:
        fields.append((b"cache-control", b"no-cache, private"))
    fields.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    if len(body) <= PIECE_BYTES:
        await send({"type": "http.response.body", "body": body})
        return
    # The rest waits here, where it holds seats, not in the connection.
    for first in range(0, len(body), PIECE_BYTES):
        end = first + PIECE_BYTES
        await send({"type": "http.response.body", "body": body[first:end], "more_body": end < len(body)})
    await connection.drained()


def _takes_gzip(accepted: bytes) -> bool:
    return b"gzip" in accepted and any(token.strip() == b"gzip" for token in accepted.split(b","))


def _compress(body: bytes) -> bytes:
    return zlib.compress(body, level=1, wbits=31)


async def _stream(stream: Stream, headers: Mapping[bytes, bytes], connection: Connection, send: Send) -> None:
    fields = [(b"content-type", stream.content_type.encode("latin-1")), (b"cache-control", b"no-cache, private")]
    fields.append((_AUDIT_ID, headers[_AUDIT_ID]))
    fields += [(name.encode("latin-1"), value.encode()) for name, value in stream.headers.items()]
    connection.streaming = asyncio.current_task()
    try:
        await send({"type": "http.response.start", "status": stream.status, "headers": fields})
        async for chunk in stream.chunks:
            if chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        if not connection.transport.is_closing():
            raise
    except ApiError:
        connection.transport.close()  # the headers are gone: all that is left to say is that it does not go on
    finally:
        connection.streaming = None
        await stream.close()


class HttpsFront:
    """Listens, and lets go gracefully."""

    def __init__(self, server: ApiServer, authenticator: Authenticator, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._unsent = Unsent(MAX_UNSENT_BYTES)
        self._crowd = Crowd(MAX_CONNECTIONS)
        self._config = uvicorn.Config(
            Application(server, authenticator, Flow(server.metrics, LIMITS)),
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._state = ServerState()
        self._doors: list[Door] = []

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one if 0 was asked for. Raises `AddressTaken`, `OSError`."""
        return await self.listen(bound(host, port))

    async def listen(self, address: socket.socket) -> int:
        """Listen on an address that was taken before; returns the port. Raises `OSError`."""
        tune_allocator()
        # It warns of every request that makes no sense: any client could fill the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._config.load()
        door = Door(address, self._context, self._crowd, self._connection)
        door.open()
        self._doors.append(door)
        return int(address.getsockname()[1])

    def _connection(self, guest: Guest, deadline: float) -> Connection:
        connection = Connection(self._config, self._state, {})
        connection.unsent, connection.crowd = self._unsent, self._crowd
        connection.guest, connection.deadline = guest, deadline
        return connection

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Take no more requests, end all streams, and wait so long for the answers that are under way."""
        for door in self._doors:
            door.close()
        self._server.stop()
        connections: list[Connection] = list(self._state.connections)  # type: ignore[arg-type]
        for connection in connections:
            connection.shutdown()
        await self._finished(min(grace_seconds, 0.5))
        for connection in connections:
            if connection.streaming is not None:  # a log that is followed
                connection.transport.abort()
        await self._finished(grace_seconds)
        for connection in connections:
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _finished(self, seconds: float) -> None:
        tasks = list(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)


def bound(host: str, port: int) -> socket.socket:
    """Take an address, without listening yet. Raises `AddressTaken`, `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            problem = f"{host}:{port} is taken by another process"
            raise AddressTaken(f"{problem}: stop it or choose another port (0 takes any free one)") from None
        raise
    return listener


def tune_allocator() -> None:
    """Let glibc keep big blocks instead of giving every list's memory back: that makes big lists three times faster."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc.mallopt(m_mmap_threshold, 32 << 20)
        libc.mallopt(m_trim_threshold, 64 << 20)
