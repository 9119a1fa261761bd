"""The pure decisions of the HTTPS transport, and its one-line explanations."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

import aiohttp
import pytest

from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig
from muster.runtime.kube.requests import MAX_ATTEMPTS, pause_of
from muster.runtime.kube.tls import explain
from muster.runtime.transport import Request, Transport, TransportError


@pytest.mark.parametrize(
    ("status", "retry_after", "attempt", "pause"),
    [
        (429, "3", 1, 3.0),
        (503, "3", 1, 3.0),
        (429, "0", 1, 0.1),
        (429, "3", MAX_ATTEMPTS - 1, 3.0),
        (429, "3", MAX_ATTEMPTS, None),
        (429, "", 1, None),
        (429, "soon", 1, None),
        (429, "1.5", 1, None),
        (429, "³", 1, None),
        (429, "9" * 400, 1, float("inf")),
        (200, "3", 1, None),
        (500, "3", 1, None),
    ],
)
def test_when_a_refused_request_is_sent_again(status: int, retry_after: str, attempt: int, pause: float | None) -> None:
    assert pause_of(status, retry_after, attempt) == pause


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "text of OpenSSL")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "TLS failed: the server wants a client certificate"),
        (tls("TLSV1_ALERT_UNKNOWN_CA"), "TLS failed: the server does not know the authority of our client certificate"),
        (tls("SSLV3_ALERT_BAD_CERTIFICATE"), "TLS failed: the server refuses our client certificate"),
        (tls("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "TLS failed: our client certificate has expired"),
        (tls("WRONG_VERSION_NUMBER"), "TLS failed: the server does not speak TLS on this port"),
        (tls("TLSV1_ALERT_PROTOCOL_VERSION"), "TLS failed: the server speaks only versions of TLS that are not safe"),
        (tls("SOMETHING_NEW"), "TLS failed: SOMETHING_NEW"),
        (OSError(errno.ENETUNREACH, "text"), "Network is unreachable"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ConnectionResetError(), "the connection broke in the middle of the answer"),
        (aiohttp.ConnectionTimeoutError(), "the server does not take the connection in time"),
        (aiohttp.ServerDisconnectedError(), "the server closed the connection without an answer"),
        (aiohttp.ClientPayloadError("text"), "the connection broke in the middle of the answer"),
        (aiohttp.ClientError("text"), "text"),
        (aiohttp.ClientError(), "ClientError"),
    ],
)
def test_why_there_was_no_answer(error: Exception, text: str) -> None:
    assert explain(error) == text


def test_it_is_a_transport_until_it_is_closed() -> None:
    async def main() -> None:
        make: Callable[..., Transport] = HttpsTransport
        transport = make(ConnectionConfig(ClusterConfig("https://h")), RealClock(), Random())
        await transport.close()
        with pytest.raises(TransportError, match="the client is closed"):
            await transport.request(Request("GET", "/version"))
        with pytest.raises(TransportError, match="the client is closed"):
            async with transport.stream(Request("GET", "/version")):
                pass

    asyncio.run(main())
