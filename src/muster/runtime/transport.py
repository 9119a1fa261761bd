"""Define the wire between the parts of the system: requests to an API server, and its answers.

There are two transports: `muster.runtime.kube.https` reaches a server over TLS, and
`muster.cluster.apiserver.inprocess` calls the embedded one without a socket. `Client` works over either.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from muster.api.kinds import Kind

T = TypeVar("T")

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Request(Struct, frozen=True):
    """One HTTP request, decoded as far as a transport needs.

    allowed: called each time before the request is sent, by a transport that delays or repeats requests.
    as_events: whether a watch is answered with `RawEvent`s instead of text, which no request from outside asks for.
    """

    method: str  # GET, POST, PUT, PATCH, DELETE
    path: str  # /api/v1/namespaces/default/pods, not percent-encoded
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    timeout_seconds: float | None = 60.0  # for the whole answer; of a stream, until it starts
    user_agent: str = ""
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # all values of a query (`command`), for tunnels
    headers: tuple[tuple[str, str], ...] = ()  # the headers that name the user: `impersonate-user` and its like
    audit_id: str = ""  # the id in the audit log; empty: the log makes one
    allowed: Callable[[], bool] | None = None
    as_events: bool = False


class Response(Struct, frozen=True):
    """One whole answer."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case names: warning, retry-after, ...


EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class RawEvent(NamedTuple):
    """One event of a watch, not decoded: a change of an object, a bookmark, or the error that ends the watch."""

    type: EventType
    object: bytes


class TransportError(Exception):
    """The error of a request without an answer: the server was unreachable, or the connection broke.

    Says where and why.
    """


class SilentError(TransportError):
    """The error of a request that was not answered in time: the server is busy or hangs, or the network is down."""


class ClosedError(TransportError):
    """The error of a request that this process ended by closing its transport, such as after the loss of a Lease."""


class UnreadableAnswerError(TransportError):
    """The error of an answer that is not as the API promises.

    It may come from another server or a broken proxy, or have another type than ours.
    """


class Conversation(Protocol):
    """A two-way exchange of messages, as over a WebSocket."""

    async def send(self, message: bytes) -> None:
        """Send one message; wait while the other side does not read. Raises `TransportError` once that side is gone."""
        ...

    async def receive(self) -> bytes:
        """Return the next message that is not empty; b"" once the other side is gone."""
        ...


class Transport(Protocol):
    """A carrier of requests to one API server as one user."""

    async def request(self, request: Request) -> Response:
        """Return the answer, whatever its status. Raises `TransportError` if there is none."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Send the request, and yield the body in pieces as they arrive (for watches and logs).

        Raises `ApiError` if the server refuses, `TransportError` if the connection breaks.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Neighbor(Protocol):
    """An API server in this process. Its watch events need no text form, and its clients share decoded objects."""

    def follow(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Sequence[RawEvent]]]:
        """Open a watch that yields batches of events. Raises what `Transport.stream` raises."""
        ...

    def decode(self, kind: Kind[T], body: bytes) -> T:
        """Return the object of a body without managedFields, which other readers may share, so none changes it.

        Raises what `Kind.decode` raises.
        """
        ...


class Tunnels(Protocol):
    """A transport that reaches into pods as well."""

    def converse(self, request: Request, protocol: str) -> AbstractAsyncContextManager[Conversation]:
        """Open a conversation in a WebSocket's subprotocol (`pods/attach`), which ends with the context.

        Raises `ApiError` if the server refuses, `TransportError` if the connection breaks.
        """
        ...
