"""Negotiate the WebSocket that a client requests: parse its headers, choose a protocol, make the response. Pure."""

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterable

from msgspec import Struct

from muster.api.status import bad_request, forbidden

_WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_WEBSOCKET_VERSION = "13"
_MAX_OFFERS = 20
# The message for a client that requests a conversation without an upgrade of the connection.
UPGRADE_REQUIRED = "Upgrade request required"
NO_SPDY = (
    "this server holds exec, attach and port-forward over WebSockets, and not over SPDY: use kubectl 1.31 or newer, or "
    "a client library that speaks WebSockets"
)


class Upgrade(Struct, frozen=True):
    """A requested WebSocket.

    offers: the subprotocols that the client supports, in its order of preference; empty if it names none.
    key: the Sec-WebSocket-Key, from which the handshake's response is computed.
    """

    offers: tuple[str, ...] = ()
    key: str = ""


def upgrade_of(headers: Iterable[tuple[bytes, bytes]]) -> Upgrade | None:
    """Return the WebSocket that a request's headers ask for; None if they ask for no upgrade.

    Raises `ApiError` (400) for an incomplete handshake, and for an upgrade to SPDY alone.
    """
    fields: dict[str, list[str]] = {}
    for name, value in headers:
        words = [word.strip() for word in value.decode("latin-1").split(",")]
        fields.setdefault(name.decode("latin-1"), []).extend(word for word in words if word)
    if "upgrade" not in (word.lower() for word in fields.get("connection", ())):
        return None
    wanted = {word.lower() for word in fields.get("upgrade", ())}
    if "websocket" in wanted:
        key = next(iter(fields.get("sec-websocket-key", ())), "")
        if fields.get("sec-websocket-version") != [_WEBSOCKET_VERSION]:
            raise bad_request(f"the WebSocket handshake lacks Sec-WebSocket-Version: {_WEBSOCKET_VERSION}")
        if not _is_key(key):
            raise bad_request("the WebSocket handshake lacks a Sec-WebSocket-Key of 16 bytes")
        return Upgrade(tuple(fields.get("sec-websocket-protocol", ())[:_MAX_OFFERS]), key)
    if "spdy/3.1" in wanted:
        raise bad_request(NO_SPDY)
    return None


def choose_protocol(upgrade: Upgrade, supported: Collection[str]) -> str:
    """Return the first protocol of the client that the server supports. Raises `ApiError` (403) if there is none.

    A client without offers counts as offering "".

    supported: the protocols of the server.
    """
    offers = upgrade.offers or ("",)
    protocol = next((offer for offer in offers if offer in supported), None)
    if protocol is None:
        ours = " ".join(sorted(supported))
        raise forbidden(
            f"unable to upgrade: unable to negotiate protocol: client supports {list(offers)}, server accepts [{ours}]"
        )
    return protocol


def make_consent_headers(upgrade: Upgrade, protocol: str) -> list[tuple[bytes, bytes]]:
    """Return the headers of the 101 response, which accepts a WebSocket with this protocol."""
    digest = hashlib.sha1(upgrade.key.encode() + _WEBSOCKET_GUID, usedforsecurity=False).digest()
    chosen = [(b"sec-websocket-protocol", protocol.encode())] if protocol else []
    accepted = (b"sec-websocket-accept", base64.b64encode(digest))
    return [(b"connection", b"Upgrade"), (b"upgrade", b"websocket"), accepted, *chosen]


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False
