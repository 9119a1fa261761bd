"""Encode and decode the channels of a remote command in the messages of one WebSocket. Pure.

The channels are stdin, stdout, stderr, error and resize. A message is a byte that names the channel, then data. The
subprotocols differ in three ways: whether messages are base64 text, what the error channel contains, and whether a
client can close one channel before the others. Source: k8s.io/apimachinery, `util/remotecommand` and
`util/httpstream/wsstream`; kubernetes KEP-4006 for v5.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.status import Status, StatusCause, StatusDetails

_CLOSE = 255  # in v5, the channel of a message whose data names the channel that ends
_MAX_SIZE_BYTES = 1024  # the limit of a terminal's size as JSON
_MAX_SIZES_BYTES = 16 * _MAX_SIZE_BYTES  # the limit of all sizes in one message
_MAX_CELLS = 65535


class ChannelError(ValueError):
    """A message that cannot be decoded."""


class ChannelDialect(Struct, frozen=True):
    """The features of a subprotocol.

    base64: messages are text, with the channel as a digit and the data in base64.
    statuses: the error channel carries a Status at the end; otherwise plain text, and only after a failure.
    half_close: the client can close one channel alone; the server's channels always close together.
    """

    base64: bool = False
    statuses: bool = True
    half_close: bool = False


DIALECTS: Mapping[str, ChannelDialect] = {
    "v5.channel.k8s.io": ChannelDialect(half_close=True),
    "v4.channel.k8s.io": ChannelDialect(),
    "v4.base64.channel.k8s.io": ChannelDialect(base64=True),
    "channel.k8s.io": ChannelDialect(statuses=False),
    "base64.channel.k8s.io": ChannelDialect(base64=True, statuses=False),
    "": ChannelDialect(statuses=False),
}


class Piece(Struct, frozen=True):
    """Data that the client sent on a channel. last: whether the client has closed the channel."""

    channel: int
    data: bytes = b""
    last: bool = False


def decode(dialect: ChannelDialect, message: bytes) -> Piece | None:
    """Return the data or the close in a message; None for an empty message. Raises `ChannelError`."""
    if not message:
        return None
    channel, data = message[0], message[1:]
    if dialect.half_close and channel == _CLOSE:
        if len(data) != 1:
            raise ChannelError("a close message names one channel")
        return Piece(data[0], last=True)
    if dialect.base64:
        channel -= ord("0")
        try:
            data = b64decode(data, validate=True)
        except binascii.Error:
            raise ChannelError("the data of a message is no base64") from None
    return Piece(channel, data)


def encode(dialect: ChannelDialect, channel: int, data: bytes) -> bytes:
    """Return the message that carries data on a channel."""
    if dialect.base64:
        return b"%d%b" % (channel, b64encode(data))
    return bytes((channel,)) + data


def make_exit_status(code: int) -> Status:
    """Return the Status of a command that exited with this exit code, in upstream's words."""
    if code == 0:
        return Status(status="Success")
    message = f"command terminated with non-zero exit code: command terminated with exit code {code}"
    details = StatusDetails(causes=(StatusCause(reason="ExitCode", message=str(code)),))
    return Status(status="Failure", message=message, reason="NonZeroExitCode", details=details)


def encode_outcome(status: Status, *, as_status: bool) -> bytes:
    """Return the data of the error channel for a Status.

    as_status: whether the data is the Status as JSON; otherwise it is its message, which is empty for a success.
    """
    if as_status:
        members: dict[str, Any] = {"metadata": {}}
        return msgspec.json.encode(members | msgspec.to_builtins(status))
    return b"" if status.status == "Success" else status.message.encode()


@dataclass(slots=True)
class Sizes:
    """The parser of the resize channel, which is a sequence of JSON objects with terminal sizes."""

    _rest: str = field(default="", init=False)

    def feed(self, data: bytes) -> list[tuple[int, int]]:
        """Return the sizes that are complete after these data, as (columns, rows). Raises `ChannelError`."""
        if len(data) > _MAX_SIZES_BYTES:
            raise ChannelError(f"more than {_MAX_SIZES_BYTES} bytes of terminal sizes at once")
        text = (self._rest + data.decode(errors="replace")).lstrip()
        sizes = []
        while text:
            try:
                size, end = _JSON.raw_decode(text)
            except RecursionError:
                raise ChannelError("the size of the terminal is no JSON that makes sense") from None
            except ValueError:
                if len(text) > _MAX_SIZE_BYTES or not text.startswith("{"):
                    raise ChannelError("the size of the terminal is no JSON") from None
                break
            sizes.append(_parse_size(size))
            text = text[end:].lstrip()
        self._rest = text
        return sizes


_JSON = json.JSONDecoder()


def _parse_size(size: Any) -> tuple[int, int]:
    columns, rows = (size.get(name) for name in ("Width", "Height")) if isinstance(size, dict) else (None, None)
    if not (isinstance(columns, int) and isinstance(rows, int)):
        raise ChannelError("the size of a terminal has a Width and a Height")
    return max(0, min(columns, _MAX_CELLS)), max(0, min(rows, _MAX_CELLS))
