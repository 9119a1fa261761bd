"""Take a connection over from HTTP for a conversation, if client and server agree on a protocol."""

import asyncio
import logging
from collections.abc import Iterable

from muster.api.status import bad_request
from muster.cluster.apiserver.answers import Tunnel
from muster.cluster.apiserver.front.asgi import Caller
from muster.cluster.apiserver.pods.tunnels.channels import ChannelError
from muster.cluster.apiserver.pods.tunnels.negotiation import (
    UPGRADE_REQUIRED,
    choose_protocol,
    make_consent_headers,
    upgrade_of,
)
from muster.cluster.apiserver.pods.tunnels.spdy import SpdyError
from muster.cluster.apiserver.pods.tunnels.wire import RawWire, Wire, WireError

log = logging.getLogger(__name__)


async def hold(tunnel: Tunnel, headers: Iterable[tuple[bytes, bytes]], caller: Caller) -> None:
    """Upgrade the connection, relay the conversation until it ends, close the connection, and call `tunnel.ended`.

    Raises `ApiError` (400, 403) if the connection cannot be upgraded. `tunnel.ended` is called then, too.
    """
    try:
        await _hold_conversation(tunnel, headers, caller)
    finally:
        tunnel.ended()


async def _hold_conversation(tunnel: Tunnel, headers: Iterable[tuple[bytes, bytes]], caller: Caller) -> None:
    upgrade = upgrade_of(headers)
    if upgrade is None:
        raise bad_request(UPGRADE_REQUIRED)
    protocol = choose_protocol(upgrade, tunnel.protocols)
    wire = _make_websocket(caller.leave_http(make_consent_headers(upgrade, protocol)), protocol)
    caller.streaming, caller.is_endless = asyncio.current_task(), True
    try:
        await tunnel.protocols[protocol](wire)
    except (WireError, ChannelError, SpdyError) as error:
        log.debug("a conversation over %s ended: %s", protocol, error)
    except asyncio.CancelledError:
        if not caller.is_gone:
            raise
    finally:
        caller.streaming, caller.is_endless = None, False
        caller.break_off()


def _make_websocket(raw: RawWire, protocol: str) -> Wire:
    # The module loads slowly, and most servers that live for one command need no WebSocket.
    from muster.cluster.apiserver.pods.tunnels.websocket import WebSocketWire

    return WebSocketWire(raw, text="base64" in protocol)
