"""Send requests to a server on this machine over its local socket: `LocalTransport`.

The kernel tells the server who we are, so that TLS and credentials are not needed. Only tunnels into pods use `https`.
A connection serves one request after the other, and each stream has a connection of its own.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from muster.runtime.client import error_of
from muster.runtime.eventloop import ensure_loop, make_slots
from muster.runtime.kube.http1 import AnswerReader, MalformedAnswerError, write_request
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.pipes import Pipe, open_pipe
from muster.runtime.kube.requests import (
    BROKEN,
    CLOSED,
    MAX_CONCURRENT_REQUESTS,
    MAX_RESPONSE_BYTES,
    UNANSWERED,
    UnreachedError,
    fixed_headers,
    headers_of,
    may_send_twice,
    no_answer,
    not_allowed,
    path_and_query,
    send_with_retries,
    too_large,
)
from muster.runtime.realclock import Clock
from muster.runtime.transport import ClosedError, Conversation, Request, Response, TransportError

if TYPE_CHECKING:
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport


class LocalTransport:
    """A transport to one server on this machine; implements `Transport` and `Tunnels`."""

    def __init__(
        self,
        config: ConnectionConfig,
        clock: Clock,
        make_random: "Callable[[], Random]",
        *,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """Make a transport, which connects to the local socket in `config` when it is first used."""
        self.config = config
        self._clock = clock
        self._make_random = make_random
        self._max_response_bytes = max_response_bytes
        self._headers = fixed_headers(config)
        self._slots = make_slots(MAX_CONCURRENT_REQUESTS)
        self._idle: list[Pipe] = []
        self._busy: set[Pipe] = set()
        self._tunnels: HttpsTransport | None = None
        self._is_closed = False

    async def request(self, request: Request) -> Response:
        """Return the response, whatever its status. Raises `TransportError` if there is none."""
        seconds = request.timeout_seconds
        deadline = None if seconds is None else self._clock.monotonic() + seconds

        async def send() -> Response:
            async with self._open_response(request, deadline) as answer:
                return await answer.read_all()

        async with self._slots:
            return await send_with_retries(send, request.method, self._clock, self._make_random, deadline)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send the request, and yield the body in pieces as they arrive.

        Raises `ApiError` if the server refuses, `TransportError` if the connection breaks.
        """
        seconds = request.timeout_seconds
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        opened = AsyncExitStack()

        async def send() -> "_Answer | Response":
            answer = await opened.enter_async_context(self._open_response(request, deadline))
            return answer if answer.status < 300 else await answer.read_all()

        async with opened:
            answer = await send_with_retries(send, request.method, self._clock, self._make_random, deadline)
            if isinstance(answer, Response):
                raise error_of(answer, request.method)
            answer.deadline = None
            yield answer.pieces()

    @asynccontextmanager
    async def converse(self, request: Request, protocol: str) -> AsyncIterator[Conversation]:
        """Open a WebSocket. Raises `ApiError` if the server refuses, `TransportError` if the connection breaks."""
        await ensure_loop()
        if self._tunnels is None:
            from muster.runtime.kube.https import HttpsTransport  # this module takes long to load

            self._tunnels = HttpsTransport(self.config, self._clock, self._make_random())
        async with self._tunnels.converse(request, protocol) as conversation:
            yield conversation

    async def close(self) -> None:
        """Close all connections. Pending requests fail."""
        self._is_closed = True
        for pipe in self._busy:  # whoever uses it closes it
            pipe.shut_down()
        while self._idle:
            self._idle.pop().close()
        if self._tunnels is not None:
            await self._tunnels.close()

    @asynccontextmanager
    async def _open_response(self, request: Request, deadline: float | None) -> "AsyncIterator[_Answer]":
        """Send a request, and yield the response when its head has arrived. Afterwards keep or close the connection.

        deadline: by `Clock.monotonic`; None for no limit.

        Raises `TransportError`.
        """
        if request.allowed is not None and not request.allowed():
            raise not_allowed(self._describe_request(request))
        with self._explain_errors(request):
            text = write_request(
                request.method, path_and_query(request), [*self._headers, *headers_of(request)], request.body
            )
            answer = await self._ask(request, text, deadline)
            try:
                yield answer
            finally:
                self._busy.discard(answer.pipe)
                if answer.may_go_on and not self._is_closed:
                    self._idle.append(answer.pipe)
                else:
                    answer.pipe.close()

    async def _ask(self, request: Request, text: bytes, deadline: float | None) -> "_Answer":
        """Send a request over an idle connection, or over a new one if none is usable; return the response.

        text: the encoded request.
        deadline: by `Clock.monotonic`; None for no limit.
        """
        while True:
            self._require_open(request)
            idle_pipe = self._take_idle()
            pipe = idle_pipe or await self._connect(request, deadline)
            self._busy.add(pipe)
            answer = _Answer(pipe, self._clock, deadline, self._max_response_bytes, self._describe_request(request))
            try:
                if await answer.begin(text):
                    return answer
            except BaseException:
                self._drop(pipe)
                raise
            self._drop(pipe)
            self._require_open(request)
            # The server may have closed a kept connection just as the request was sent.
            if idle_pipe is None or not may_send_twice(request.method):
                raise TransportError(f"{self._describe_request(request)}: {UNANSWERED}")

    def _take_idle(self) -> Pipe | None:
        while self._idle:
            pipe = self._idle.pop()
            if pipe.is_quiet():
                return pipe
            pipe.close()
        return None

    async def _connect(self, request: Request, deadline: float | None) -> Pipe:
        try:
            return await open_pipe(self.config.cluster.local_socket, seconds_until(deadline, self._clock))
        except TimeoutError:
            raise
        except OSError as error:
            raise UnreachedError(f"{self._describe_request(request)}: {error.strerror or error}") from None

    def _drop(self, pipe: Pipe) -> None:
        self._busy.discard(pipe)
        pipe.close()

    @contextmanager
    def _explain_errors(self, request: Request) -> Iterator[None]:
        """Convert an error of an exchange inside the `with` block to a `TransportError`."""
        where = self._describe_request(request)
        try:
            yield
        except TimeoutError:
            raise no_answer(where, request.timeout_seconds) from None
        except MalformedAnswerError as error:
            raise TransportError(f"{where}: the answer is not that of an API server: {error}") from None
        except TransportError:
            self._require_open(request)
            raise
        except OSError as error:
            self._require_open(request)
            raise TransportError(f"{where}: {error.strerror or BROKEN}") from None

    def _require_open(self, request: Request) -> None:
        if self._is_closed:
            raise ClosedError(f"{self._describe_request(request)}: {CLOSED}") from None

    def _describe_request(self, request: Request) -> str:
        return f"{request.method} {self.config.cluster.local_socket}{quote(request.path)}"


class _Answer:
    """The response to one request, on its connection."""

    def __init__(self, pipe: Pipe, clock: Clock, deadline: float | None, most: int, where: str) -> None:
        self.pipe = pipe
        self.deadline = deadline
        self._clock = clock
        self._most = most
        self._where = where
        self._reader = AnswerReader()
        self._pieces: list[bytes] = []

    @property
    def status(self) -> int:
        assert self._reader.head is not None, "it has begun"
        return self._reader.head.status

    @property
    def headers(self) -> Mapping[str, str]:
        assert self._reader.head is not None, "it has begun"
        return self._reader.head.headers

    @property
    def may_go_on(self) -> bool:
        """Whether the connection can be used for another request after this one."""
        return self._reader.is_whole and self._reader.may_go_on

    async def begin(self, text: bytes) -> bool:
        """Send the request and read the head. Return False if the server closed the connection without a response."""
        with suppress(BrokenPipeError, ConnectionResetError):  # the server may have refused the request by its head
            await self.pipe.send(text, seconds_until(self.deadline, self._clock))
        try:
            while self._reader.head is None:
                if not await self._receive():
                    return False
        except ConnectionResetError:
            return False
        return True

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body as they arrive. Raises `TransportError`, `OSError`, `MalformedAnswerError`."""
        while True:
            while self._pieces:
                yield self._pieces.pop(0)
            if self._reader.is_whole:
                return
            if not await self._receive() and not self._reader.is_whole:
                raise TransportError(f"{self._where}: {BROKEN}")

    async def read_all(self) -> Response:
        """Return the whole response. Raises `TransportError`, and the errors of `pieces`."""
        pieces, size = [], 0
        async for piece in self.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > self._most:
                raise too_large(self._where, self._most)
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Response(self.status, b"".join(pieces), kind, self.headers)

    async def _receive(self) -> bool:
        data = await self.pipe.receive(seconds_until(self.deadline, self._clock))
        if not data:
            self._reader.end()
            return False
        self._pieces += self._reader.add(data)
        return True


def seconds_until(deadline: float | None, clock: Clock) -> float | None:
    """Return the remaining seconds; None for no deadline. Raises `TimeoutError` if the deadline has passed."""
    if deadline is None:
        return None
    left = deadline - clock.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
