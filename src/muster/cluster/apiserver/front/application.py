"""The ASGI application: requests from the wire become requests to the pipeline, and answers go back."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from urllib.parse import parse_qsl

from msgspec.structs import replace

from muster.api.status import ApiError, Status
from muster.cluster.apiserver.answers import Answer, refusal
from muster.cluster.apiserver.decode import ReadAhead, takes_long
from muster.cluster.apiserver.exchange import Exchange
from muster.cluster.apiserver.front.asgi import AUDIT_ID, EXTENSION, Caller, Receive, Scope, Send, query_of, text
from muster.cluster.apiserver.front.flow import Flow, Shares, room_for, seats_for
from muster.cluster.apiserver.front.incoming import Body
from muster.cluster.apiserver.front.sending import respond
from muster.cluster.apiserver.identity.users import Authenticator, User
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.apiserver.request.requestinfo import as_list, is_long_running, timeout
from muster.runtime.transport import Request, Response

REQUEST_SECONDS = 60.0  # for an answer, or for a stream to begin
MAX_AUDIT_ID_BYTES = 64  # that a client may choose; the rest is cut off, as upstream does

# The ends of paths whose query names a parameter several times: the words of a command, and ports.
_TUNNELS = ("/exec", "/portforward")


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
        caller: Caller = scope["extensions"][EXTENSION]
        headers = dict(reversed(scope["headers"]))  # of several of a name, the first
        headers[AUDIT_ID] = headers.get(AUDIT_ID, b"")[:MAX_AUDIT_ID_BYTES] or self._server.ids.uid().encode()
        body = Body(scope["method"], headers, receive)
        # Seats are for working on an answer: a slow client that reads it takes none from others.
        with ExitStack() as opened:
            try:
                request = _request(scope, headers, caller)
                user = self._user(caller, request, headers)
                caller.guest.owner = user.name
                exchange = self._server.begin(request, user)
                with ExitStack() as taken:
                    answer = await self._answer(exchange, body, caller, taken, opened)
            except ApiError as error:
                answer = _refused(error)
            except asyncio.CancelledError:
                if caller.is_gone:
                    return
                raise
            await respond(answer, scope, headers, body, caller, send, self._rest)

    async def _rest(self) -> None:
        """Let more come together, after a piece of a watch that was short."""
        if seconds := self._flow.rest_seconds:
            await self._server.clock.sleep(seconds)

    def _user(self, caller: Caller, request: Request, headers: Mapping[bytes, bytes]) -> User:
        """Who asks. Raises `ApiError` (401)."""
        try:
            return self._authenticator.user(caller.user, text(headers, b"authorization"))
        except ApiError:
            self._server.not_known(request)
            raise

    async def _answer(
        self, exchange: Exchange, body: Body, caller: Caller, taken: ExitStack, opened: ExitStack
    ) -> Answer:
        if exchange.refused is not None:
            return exchange.refused
        try:
            seconds = await self._admit(exchange, body, caller, taken, opened)
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

    async def _admit(
        self, exchange: Exchange, body: Body, caller: Caller, taken: ExitStack, opened: ExitStack
    ) -> float | None:
        """Read the body, and wait until the request may go on; returns how long it may take.

        What it was lent is given back when `taken` is left, the place of a stream or a list when `opened` is.
        Raises `ApiError` (400, 408, 413, 429).
        """
        request, flow, user = exchange.request, self._flow, exchange.user
        method, path, query = request.method, request.path, request.query
        size = body.most
        if is_stream := is_long_running(method, path, query):
            seconds: float | None = REQUEST_SECONDS
            flow.open_stream(user)
            opened.callback(flow.close_stream, user)
        else:  # a GET waits for nothing but its turn
            seconds = None if method == "GET" and "timeout" not in query else timeout(query, REQUEST_SECONDS)
        if size:
            await _take(flow.room, user, room_for(size), caller, taken)
            content = await body.read()
            if takes_long(content, request.content_type):
                content = await self._read_ahead(content, exchange, caller)
            exchange.body_came(content)
        if not is_stream and (seats := seats_for(method, path, query.get("limit", ""), size)):
            if method == "GET" and seats > 1:
                await _take(flow.lists, user, seats, caller, opened)
            await _take(flow.seats, user, seats, caller, taken)
        return seconds

    async def _read_ahead(self, content: bytes, exchange: Exchange, caller: Caller) -> bytes:
        """Read in a thread what takes long: the loop goes on. One at a time, users in turn. Raises `ApiError` (429)."""
        with ExitStack() as taken:
            await _take(self._flow.readers, exchange.user, 1, caller, taken)
            return await asyncio.to_thread(ReadAhead.of, content, exchange.request.content_type)


async def _take(shares: Shares, user: str, count: int, caller: Caller, taken: ExitStack) -> None:
    """Borrow so many. Raises `ApiError` (429)."""
    lent = shares.take_at_once(user, count)
    if not lent:
        caller.streaming = asyncio.current_task()  # who hangs up need not wait
        try:
            lent = await shares.take(user, count)
        finally:
            caller.streaming = None
    taken.callback(shares.give_back, user, lent)


def _request(scope: Scope, headers: Mapping[bytes, bytes], caller: Caller) -> Request:
    """What is asked for, but for the body. Raises `ApiError` (400)."""
    path, query = as_list(scope["path"], query_of(scope["query_string"]))
    request = Request(
        scope["method"],
        path,
        query,
        b"",
        text(headers, b"content-type"),
        text(headers, b"accept"),
        user_agent=text(headers, b"user-agent"),
        headers=_on_behalf(scope["headers"]),
        audit_id=text(headers, AUDIT_ID),
    )
    # A client repeats a refused handshake without one, to read why: the server refuses it for the same reason.
    needs_lists = caller.is_upgrade or path.endswith(_TUNNELS)
    return replace(request, lists=_lists(scope["query_string"])) if needs_lists else request


def _refused(error: ApiError) -> Response:
    """The answer to a request of which is not known who asks, or what."""
    answer = refusal(error)
    return replace(answer, headers={**answer.headers, "www-authenticate": "Bearer"}) if error.code == 401 else answer


def _on_behalf(headers: list[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers that ask to be taken for another user."""
    return tuple(
        [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name[:12] == b"impersonate-"]
    )


def _timeout(message: str) -> ApiError:
    # No client is told to try again by itself: what was to be written may have been written.
    return ApiError(Status(status="Failure", code=504, reason="Timeout", message=f"Timeout: {message}"))


def _lists(raw: bytes) -> Mapping[str, tuple[str, ...]]:
    """All values of every parameter of a query that can be read."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in parse_qsl(raw.decode("ascii"), keep_blank_values=True):
        found[name] = (*found.get(name, ()), value)
    return found
