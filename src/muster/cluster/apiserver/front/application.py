"""The ASGI application of the API server.

The application takes an ASGI request from a codec, passes the pipeline a `Request` with its user, and sends the
response. It limits the time of each request and the seats (the share of the server's capacity) that it occupies. The
pipeline decides about the response.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from msgspec.structs import replace

from muster.api.status import ApiError, Status, unauthorized
from muster.cluster.apiserver.answers import Answer, make_refusal
from muster.cluster.apiserver.decode import ReadAhead, takes_long
from muster.cluster.apiserver.exchange import Exchange
from muster.cluster.apiserver.front.asgi import AUDIT_ID, EXTENSION, Caller, Receive, Scope, Send, get_text, query_of
from muster.cluster.apiserver.front.flow import Flow, room_for
from muster.cluster.apiserver.front.incoming import Body
from muster.cluster.apiserver.front.loans import Loans
from muster.cluster.apiserver.front.pages import Pages
from muster.cluster.apiserver.front.revocation import RevocableStreams
from muster.cluster.apiserver.front.sending import respond
from muster.cluster.apiserver.identity.users import Authenticator, User
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.request.requestinfo import is_long_running, parse_timeout, replace_watch_path
from muster.runtime.transport import Request, Response

REQUEST_SECONDS = 60.0  # the time limit until the response exists, or a stream has started
MAX_AUDIT_ID_BYTES = 64  # the limit of a client's audit ID; a longer ID is cut, as upstream

# The ends of paths whose query repeats a parameter: `exec` for the words of a command, `portforward` for ports.
_TUNNELS = ("/exec", "/portforward")


class Application:
    """The ASGI application of one server.

    The application refuses a request by its headers alone if possible. Otherwise it reads the body, and takes a seat
    when the body is complete. So a client without rights, or a slow client, takes no seat from others.
    """

    def __init__(self, server: ApiServer, authenticator: Authenticator, flow: Flow, pages: Pages | None = None) -> None:
        self.streams = RevocableStreams()
        self._server = server
        self._authenticator = authenticator
        self._flow = flow
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate one HTTP request, handle it after it gets a seat, and send the response."""
        if self._pages is not None and self._pages.has(scope["path"]):
            await self._pages.app(scope, receive, send)
            return
        caller: Caller = scope["extensions"][EXTENSION]
        headers = dict(reversed(scope["headers"]))  # the first value of a repeated header counts
        headers[AUDIT_ID] = headers.get(AUDIT_ID, b"")[:MAX_AUDIT_ID_BYTES] or self._server.ids.uid().encode()
        body = Body(scope["method"], headers, receive)
        # `taken` closes before the response is sent, so that a client that reads slowly occupies no seat.
        with Loans() as opened:
            try:
                request = _make_request(scope, headers, caller)
                user = await self._find_user(caller, request, headers)
                caller.slot.owner = user.name
                exchange = self._server.begin(request, user)
                is_stream = is_long_running(request.method, request.path, request.query)
                if is_stream:
                    authenticate = partial(self._authenticator.user, caller.user, get_text(headers, b"authorization"))
                    opened.callback(self.streams.enter(user.name, authenticate, caller.break_off))
                with Loans() as taken:
                    answer = await self._answer(exchange, body, caller, taken, opened, is_stream=is_stream)
            except ApiError as error:
                answer = _make_refusal(error)
            except asyncio.CancelledError:
                if caller.is_gone:
                    return
                raise
            await respond(answer, scope, headers, body, caller, send, self._pause_watch)

    async def _pause_watch(self) -> None:
        """Pause a watch after a short piece, so that later events are sent together."""
        if seconds := self._flow.rest_seconds:
            await self._server.clock.sleep(seconds)

    async def _find_user(self, caller: Caller, request: Request, headers: Mapping[bytes, bytes]) -> User:
        """Return the user who sends the request. Raises `ApiError` (401, 403).

        For a local socket, the kernel identifies the user, and headers have no effect.
        """
        slot = caller.slot
        try:
            if slot.peer is not None:
                if slot.find_peer is None:
                    raise unauthorized()
                slot.user = slot.user or await slot.find_peer(slot.peer)
                return slot.user
            return self._authenticator.user(caller.user, get_text(headers, b"authorization"))
        except ApiError:
            self._server.record_unauthenticated(request)
            raise

    async def _answer(
        self, exchange: Exchange, body: Body, caller: Caller, taken: Loans, opened: Loans, *, is_stream: bool
    ) -> Answer:
        if exchange.refused is not None:
            return exchange.refused
        try:
            seconds = await self._admit(exchange, body, caller, taken, opened, is_stream=is_stream)
        except ApiError as error:
            return exchange.make_error_answer(error)
        except asyncio.CancelledError:
            exchange.log_abandoned()
            raise
        if seconds is None:
            return await self._server.answer(exchange)
        try:
            with self._server.deadlines.within(seconds):
                return await self._server.answer(exchange)
        except TimeoutError:
            return make_refusal(_make_timeout_error())

    async def _admit(
        self, exchange: Exchange, body: Body, caller: Caller, taken: Loans, opened: Loans, *, is_stream: bool
    ) -> float | None:
        """Read the body, and wait for a seat; return the seconds that the response may take (None for no limit).

        The body is stored in `exchange`. Closing `taken` gives back the seats and the room for the body. Closing
        `opened` gives back the place of a stream or a list. Raises `ApiError` (400, 408, 413, 429).

        is_stream: whether the response is a stream, which takes no seats.
        """
        request, flow, user = exchange.request, self._flow, exchange.user
        query, size = request.query, body.most
        if is_stream:
            seconds: float | None = REQUEST_SECONDS
            flow.open_stream(user)
            opened.callback(flow.close_stream, user)
        else:  # a GET waits only for its seat, and that wait has its own limit
            seconds = (
                None if request.method == "GET" and "timeout" not in query else parse_timeout(query, REQUEST_SECONDS)
            )
        if size:
            room = room_for(size)
            if not flow.room.borrow_at_once(user, room, taken):
                await _wait(flow.room.borrow(user, room, taken), caller)
            content = await (body.read_received() if caller.is_received else body.read())
            if takes_long(content, request.content_type):
                content = await self._read_ahead(content, exchange, caller)
            exchange.store_body(content)
        if not is_stream and not flow.take_seats_at_once(user, request, size, taken):
            await _wait(flow.take_seats(user, request, size, taken, opened), caller)
        return seconds

    async def _read_ahead(self, content: bytes, exchange: Exchange, caller: Caller) -> bytes:
        """Decode a big body in a thread, so that the event loop continues.

        Users take turns with the threads for decoding, of which there is one by default. Raises `ApiError` (429).
        """
        with Loans() as taken:
            await _wait(self._flow.readers.borrow(exchange.user, 1, taken), caller)
            return await asyncio.to_thread(ReadAhead.of, content, exchange.request.content_type)


async def _wait(borrowing: Coroutine[Any, Any, None], caller: Caller) -> None:
    """Wait until the resources of a request are free: its room for a body, its seat, or a thread for decoding.

    If the client disconnects, the task is cancelled. Raises `ApiError` (429).

    borrowing: waits for the resources and takes them.
    """
    caller.streaming = asyncio.current_task()
    try:
        await borrowing
    finally:
        caller.streaming = None


def _make_request(scope: Scope, headers: Mapping[bytes, bytes], caller: Caller) -> Request:
    """Return the request without its body. Raises `ApiError` (400)."""
    path, query = replace_watch_path(scope["path"], query_of(scope["query_string"]))
    request = Request(
        scope["method"],
        path,
        query,
        b"",
        get_text(headers, b"content-type"),
        get_text(headers, b"accept"),
        user_agent=get_text(headers, b"user-agent"),
        headers=_list_impersonation_headers(scope["headers"]),
        audit_id=get_text(headers, AUDIT_ID),
    )
    # A client whose handshake was refused repeats the request without an upgrade, to read the reason.
    # The server needs the same parameters to refuse that request for the same reason.
    needs_lists = caller.is_upgrade or path.endswith(_TUNNELS)
    return replace(request, lists=_parse_query_lists(scope["query_string"])) if needs_lists else request


def _make_refusal(error: ApiError) -> Response:
    """Return the response to a request that is refused with an error. A 401 response asks for a bearer token."""
    answer = make_refusal(error)
    return replace(answer, headers={**answer.headers, "www-authenticate": "Bearer"}) if error.code == 401 else answer


def _list_impersonation_headers(headers: list[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Return the headers that request impersonation of another user."""
    return tuple(
        [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name[:12] == b"impersonate-"]
    )


def _make_timeout_error() -> ApiError:
    # The response has no Retry-After: the write may have happened, and a client must not repeat it blindly.
    message = "Timeout: request did not complete within the allotted timeout"
    return ApiError(Status(status="Failure", code=504, reason="Timeout", message=message))


def _parse_query_lists(raw: bytes) -> Mapping[str, tuple[str, ...]]:
    """Return all values of each parameter. The query must be valid."""
    values: dict[str, tuple[str, ...]] = {}
    for name, value in parse_qsl(raw.decode("ascii"), keep_blank_values=True):
        values[name] = (*values.get(name, ()), value)
    return values
