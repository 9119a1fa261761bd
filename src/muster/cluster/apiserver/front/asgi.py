"""The contract between a codec and the application: ASGI, and the `Caller` who sent a request.

HTTP/1.1 (`http1`) and HTTP/2 (`http2`) are codecs. Each makes the same scope from a request and calls the same
application. Each writes the application's messages in the form of its protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl

from muster.api.status import bad_request
from muster.cluster.apiserver.front.connectionlimit import ConnectionSlot
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.wire import RawWire

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

EXTENSION = "muster.caller"  # the key of the `Caller` in the extensions of a scope
AUDIT_ID = b"audit-id"
MAX_QUERY_BYTES = 32 * 1024
MAX_QUERY_FIELDS = 100


class Caller(Protocol):
    """The sender of a request and the way back to it: an exchange of HTTP/1.1, or a stream of HTTP/2.

    user: the user of the client certificate; None without one.
    slot: the connection's entry in the limit of connections.
    is_upgrade: whether the request asks for a protocol other than HTTP.
    is_alone: whether the rest of the body must be read before the connection takes another request (HTTP/1.1).
    streaming: the task to cancel when the client disconnects.
    is_endless: whether the current response ends only when the client or the server stops it.
    """

    user: User | None
    slot: ConnectionSlot
    is_upgrade: bool
    is_alone: bool
    streaming: "asyncio.Task[Any] | None"
    is_endless: bool

    @property
    def is_gone(self) -> bool:
        """Whether no response can reach the client any more."""
        ...

    @property
    def is_received(self) -> bool:
        """Whether the whole request has arrived, including its body."""
        ...

    async def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole response with a short body."""
        ...

    def break_off(self) -> None:
        """Send the data written so far, and close so that the client can tell that the response is incomplete."""
        ...

    async def drain(self) -> None:
        """Wait until the client has received most of the written data."""
        ...

    def count_held(self, size: int) -> None:
        """Set the number of bytes of the response that the application still holds."""
        ...

    def leave_http(self, headers: list[tuple[bytes, bytes]]) -> RawWire:
        """Accept another protocol, and return the wire for all later bytes. Raises `ApiError` on HTTP/2."""
        ...


def get_text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    """Return the text of a header; "" if it is missing."""
    value = headers.get(name)
    return value.decode("latin-1") if value else ""


@lru_cache(maxsize=256)
def query_of(raw: bytes) -> Mapping[str, str]:
    """Return the first value of every parameter of a query. Raises `ApiError` (400)."""
    if not raw:
        return {}
    if len(raw) > MAX_QUERY_BYTES:
        raise bad_request(f"the query is longer than {MAX_QUERY_BYTES} bytes")
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
    except ValueError as error:
        raise bad_request(f"the query cannot be read: {error}") from None
    return dict(reversed(pairs))
