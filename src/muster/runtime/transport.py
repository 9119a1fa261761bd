"""Define the interface between the parts of the system: requests to an API server, and its responses.

There are two main transports: `muster.runtime.kube.https` reaches a server over TLS, and
`muster.cluster.apiserver.inprocess` calls the embedded one without a socket. `Client` works over any transport.
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

    allowed: called before each sending of the request, by a transport that delays or repeats requests; returns whether
    to send it.
    as_events: whether the response to a watch is `RawEvent`s instead of text; false for requests from outside.
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
    """One whole response."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case names: warning, retry-after, ...


EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class RawEvent(NamedTuple):
    """One undecoded event of a watch: a change of an object, a bookmark, or the error that ends the watch."""

    type: EventType
    object: bytes


class TransportError(Exception):
    """A request without a response: the server was unreachable, or the connection broke.

    The message says where and why.
    """


class SilentError(TransportError):
    """A request without a response in time: the server is busy or hangs, or the network is down."""


class ClosedError(TransportError):
    """A request that this process aborted by closing its transport, such as after the loss of a Lease."""


class UnreadableAnswerError(TransportError):
    """A response that does not follow the API.

    It may come from another server or a broken proxy, or have another type than ours.
    """


class Conversation(Protocol):
    """A two-way exchange of messages, as over a WebSocket."""

    async def send(self, message: bytes) -> None:
        """Send one message; wait while the other side does not read.

        Raises `TransportError` after that side has gone.
        """
        ...

    async def receive(self) -> bytes:
        """Return the next message that is not empty; b"" after the other side has gone."""
        ...


class Transport(Protocol):
    """A connection for requests to one API server as one user."""

    async def request(self, request: Request) -> Response:
        """Return the response, whatever its status. Raises `TransportError` if there is none."""
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
        """Open a watch that yields batches of events. Raises the errors of `Transport.stream`."""
        ...

    def decode(self, kind: Kind[T], body: bytes) -> T:
        """Return the object of a body without managedFields.

        Other readers may share the object, so no caller changes it. Raises the errors of `Kind.decode`.
        """
        ...


class Tunnels(Protocol):
    """A transport that can also open tunnels into pods."""

    def converse(self, request: Request, protocol: str) -> AbstractAsyncContextManager[Conversation]:
        """Open a conversation in a WebSocket's subprotocol (`pods/attach`), which ends when the context closes.

        Raises `ApiError` if the server refuses, `TransportError` if the connection breaks.
        """
        ...
