"""What a codec and the application say to each other: ASGI, and who sent a request.

HTTP/1.1 (`http1`) and HTTP/2 (`http2`) are codecs: each makes the same scope of a request, calls the same application,
and writes the same messages as its protocol has it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl

from muster.api.status import bad_request
from muster.cluster.apiserver.front.crowd import Guest
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.pods.tunnels.wire import RawWire

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

EXTENSION = "muster.caller"  # where a request's scope has its `Caller`
AUDIT_ID = b"audit-id"
MAX_QUERY_BYTES = 32 * 1024
MAX_QUERY_FIELDS = 100


class Caller(Protocol):
    """Who sent a request, and the way back: a connection of HTTP/1.1, a stream of HTTP/2.

    user: whom the client certificate names.
    guest: what its connection is to the crowd.
    is_upgrade: the request asks for another protocol than HTTP.
    is_alone: it has the connection for itself, so that what is left of its body has to go before another request comes.
    streaming: what is to be cancelled when the client goes.
    is_endless: the answer under way ends when the client or the server wants.
    """

    user: User | None
    guest: Guest
    is_upgrade: bool
    is_alone: bool
    streaming: "asyncio.Task[Any] | None"
    is_endless: bool

    @property
    def is_gone(self) -> bool:
        """Whether no answer can reach it any more."""
        ...

    def break_off(self) -> None:
        """Send what there is, and let the client see that the answer is not whole."""
        ...

    async def drained(self) -> None:
        """Wait until not much is kept for sending."""
        ...

    def holds(self, size: int) -> None:
        """So much of the answer waits outside until the client has taken what is before it."""
        ...

    def leave_http(self, headers: list[tuple[bytes, bytes]]) -> RawWire:
        """Agree to another protocol; what comes from now on is for the wire. Raises `ApiError` where there is none."""
        ...


def text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    """A header, empty without it."""
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
