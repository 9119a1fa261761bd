"""Define the responses to a client: single responses, streams, tunnels and Status objects, with their warnings."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct, field

from muster.api.status import ApiError, Status, StatusDetails
from muster.cluster.apiserver.pods.tunnels.wire import Wire
from muster.runtime.transport import JSON, Response

MAX_WARNINGS = 100
MAX_WARNING_LENGTH = 256  # the limit of one warning; warnings are sent in a header
MAX_WARNINGS_LENGTH = 4096  # the limit of all warnings of a response


class Stream(Struct, frozen=True):
    """A response that is sent in pieces: a watch, a log, a long list.

    chunks: pieces of bytes, or batches of `RawEvent`s if the request asks for them (`as_events`).
    rests: whether a short piece may wait a moment, to be sent together with the next pieces.
    is_endless: whether the stream ends only when the client or the server stops it.
    """

    chunks: AsyncIterator[Any]
    content_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    rests: bool = False
    is_endless: bool = False

    async def close(self) -> None:
        """Release the resources of the stream, such as its watch, if the stream was not read to its end."""
        if isinstance(self.chunks, _Closing):
            await self.chunks.aclose()


@runtime_checkable
class _Closing(Protocol):
    async def aclose(self) -> None: ...


def _do_nothing() -> None:
    """Do nothing: the default of `Tunnel.ended`."""


Talk: TypeAlias = Callable[[Wire], Awaitable[None]]
"""Holds a conversation to its end. Raises `WireError`, `ChannelError`, `SpdyError` if the client breaks its rules."""


class Tunnel(Struct, frozen=True):
    """The response to an upgrade: a function then talks to the client over the same connection, no longer in HTTP.

    protocols: the function that talks to the client, by subprotocol of the WebSocket; "" for clients that name none.
    ended: called when the function has returned or could not be called.
    """

    protocols: Mapping[str, Talk]
    ended: Callable[[], None] = _do_nothing
    status: int = 101


Answer: TypeAlias = Response | Stream | Tunnel


def encode_status(status: Status) -> bytes:
    """Encode a Status as JSON."""
    members: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return msgspec.json.encode(members | msgspec.to_builtins(status))


def make_refusal(error: ApiError, warnings: Sequence[str] = ()) -> Response:
    """Return the response to a request that was refused, with its warnings and Retry-After."""
    headers = warning_headers(warnings)
    details = error.status.details
    if details is not None and details.retry_after_seconds:
        headers["retry-after"] = str(details.retry_after_seconds)
    return Response(error.status.code, encode_status(error.status), JSON, headers)


def make_success(details: StatusDetails | None = None, code: int = 200, warnings: Sequence[str] = ()) -> Response:
    """Return the response to a request that succeeded and has no object to return."""
    status = Status(status="Success", details=details, code=0 if code == 200 else code)
    return Response(code, encode_status(status), JSON, warning_headers(warnings))


def warning_headers(warnings: Sequence[str]) -> dict[str, str]:
    """Return one Warning header (RFC 7234) with these sentences; {} if there are none.

    Repeated sentences, and sentences beyond the limits of this module, are left out.
    """
    if not warnings:
        return {}
    items: list[str] = []
    length = 0
    for warning in list(dict.fromkeys(warnings))[:MAX_WARNINGS]:
        item = f"299 - {_quote_text(warning)}"
        length += len(item)
        if length > MAX_WARNINGS_LENGTH:
            break
        items.append(item)
    return {"warning": ", ".join(items)}


def _quote_text(text: str) -> str:
    r"""Return a text as a quoted string of HTTP, cut to `MAX_WARNING_LENGTH`.

    Control characters become spaces, and `"` and `\\` are escaped.
    """
    short = text if len(text) <= MAX_WARNING_LENGTH else text[: MAX_WARNING_LENGTH - 3] + "..."
    plain = "".join(" " if ord(character) < 32 or ord(character) == 127 else character for character in short)
    escaped = plain.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
