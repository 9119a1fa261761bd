"""What goes back to the client: whole answers, streams, tunnels, and Status objects; and the warnings with them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct, field

from muster.api.status import ApiError, Status, StatusDetails
from muster.cluster.apiserver.pods.tunnels.wire import Wire
from muster.runtime.transport import JSON, Response

MAX_WARNINGS = 100
MAX_WARNING_LENGTH = 256  # of one sentence: they travel in a header
MAX_WARNINGS_LENGTH = 4096  # of all


class Stream(Struct, frozen=True):
    """An answer that goes on: watches, logs, long lists.

    rests: a short piece of it may wait a moment for others to go with it.
    is_endless: it ends when the client or the server wants.
    """

    chunks: AsyncIterator[bytes]
    content_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    rests: bool = False
    is_endless: bool = False

    async def close(self) -> None:
        """Let go of what the rest of it would need."""
        if isinstance(self.chunks, _Closing):
            await self.chunks.aclose()


@runtime_checkable
class _Closing(Protocol):
    async def aclose(self) -> None: ...


def _nothing() -> None:
    """Nothing is done at the end."""


Talk: TypeAlias = Callable[[Wire], Awaitable[None]]
"""Holds a conversation to its end. Raises `WireError`, `ChannelError`, `SpdyError` if the client breaks its rules."""


class Tunnel(Struct, frozen=True):
    """An answer that is a conversation: the connection leaves HTTP for it.

    protocols: how to hold it, by subprotocol of the WebSocket; the empty one for clients that name none.
    ended: called once it is over, or has not come about.
    """

    protocols: Mapping[str, Talk]
    ended: Callable[[], None] = _nothing
    status: int = 101


Answer: TypeAlias = Response | Stream | Tunnel


def encode_status(status: Status) -> bytes:
    """The Status as JSON."""
    members: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return msgspec.json.encode(members | msgspec.to_builtins(status))


def refusal(error: ApiError, warnings: Sequence[str] = ()) -> Response:
    """The answer to a request that was refused."""
    headers = warning_headers(warnings)
    details = error.status.details
    if details is not None and details.retry_after_seconds:
        headers["retry-after"] = str(details.retry_after_seconds)
    return Response(error.status.code, encode_status(error.status), JSON, headers)


def success(details: StatusDetails | None = None, code: int = 200, warnings: Sequence[str] = ()) -> Response:
    """The answer that something was done, with no object to show."""
    status = Status(status="Success", details=details, code=0 if code == 200 else code)
    return Response(code, encode_status(status), JSON, warning_headers(warnings))


def warning_headers(warnings: Sequence[str]) -> dict[str, str]:
    """The Warning header for these sentences (RFC 7234), all in one; none if there are none."""
    if not warnings:
        return {}
    items: list[str] = []
    length = 0
    for warning in list(dict.fromkeys(warnings))[:MAX_WARNINGS]:
        item = f"299 - {_quoted(warning)}"
        length += len(item)
        if length > MAX_WARNINGS_LENGTH:
            break
        items.append(item)
    return {"warning": ", ".join(items)}


def _quoted(text: str) -> str:
    r"""An HTTP quoted string: no control characters, and `"` and `\\` escaped."""
    short = text if len(text) <= MAX_WARNING_LENGTH else text[: MAX_WARNING_LENGTH - 3] + "..."
    plain = "".join(" " if ord(character) < 32 or ord(character) == 127 else character for character in short)
    escaped = plain.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
