"""The wire between the parts of the system: requests to an API server, and its answers.

There are two transports: `muster.runtime.kube.https` reaches a server over TLS, and
`muster.cluster.apiserver.inprocess` calls the embedded one without a socket. `Client` stands on either.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct, field

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Request(Struct, frozen=True):
    """One HTTP request, decoded as far as a transport needs.

    allowed: asked each time before it is sent, by a transport that lets it wait or sends it again.
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
    headers: tuple[tuple[str, str], ...] = ()  # those that say on whose behalf: `impersonate-user` and its like
    audit_id: str = ""  # by which the audit log knows it; empty: by one of its own
    allowed: Callable[[], bool] | None = None


class Response(Struct, frozen=True):
    """One whole answer."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case names: warning, retry-after, ...


class TransportError(Exception):
    """No answer: the server could not be reached, or the connection broke. Says where and why."""


class UnreadableAnswerError(TransportError):
    """An answer came, but it is not what the API promises: another server, a broken proxy, a type that we got wrong."""


class Conversation(Protocol):
    """Messages both ways, as over a WebSocket."""

    async def send(self, message: bytes) -> None:
        """Send one, and wait while the other side takes none. Raises `TransportError` once it has gone."""
        ...

    async def receive(self) -> bytes:
        """The next one that is not empty; empty once the other side has gone."""
        ...


class Transport(Protocol):
    """Carries requests to one API server as one user."""

    async def request(self, request: Request) -> Response:
        """The answer, whatever its status. Raises `TransportError` if there is none."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body as it comes, in pieces of any size (for watches and logs).

        Raises `ApiError` if the server refuses, `TransportError` if the connection breaks.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Tunnels(Protocol):
    """A transport that reaches into pods as well."""

    def converse(self, request: Request, protocol: str) -> AbstractAsyncContextManager[Conversation]:
        """A conversation in a WebSocket's subprotocol (`pods/attach`), left by leaving the context.

        Raises `ApiError` if the server refuses, `TransportError` if the connection breaks.
        """
        ...
