"""How clients ask for another protocol than HTTP."""

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.pods.tunnels.negotiation import Upgrade, choose_protocol, make_consent_headers, upgrade_of

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # the example of RFC 6455
SOCKET = {
    "connection": "keep-alive, Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": KEY,
}


def asked(*more, **headers):
    pairs = [*headers.items(), *more]
    return upgrade_of([(name.encode(), value.encode()) for name, value in pairs])


def test_a_websocket_is_asked_for():
    protocols = ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"), ("sec-websocket-protocol", "x")
    found = asked(*protocols, **SOCKET)
    assert found == Upgrade(("v5.channel.k8s.io", "v4.channel.k8s.io", "x"), KEY)
    assert make_consent_headers(found, "x") == [
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-accept", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        (b"sec-websocket-protocol", b"x"),
    ]


def test_who_asks_for_spdy_hears_what_to_use_instead():
    with pytest.raises(ApiError, match=r"over WebSockets, and not over SPDY: use kubectl 1\.31 or newer") as refused:
        asked(("x-stream-protocol-version", "v4"), connection="Upgrade", upgrade="SPDY/3.1")
    assert refused.value.code == 400


@pytest.mark.parametrize(
    "headers", [{}, {"upgrade": "websocket"}, {"connection": "upgrade"}, {"connection": "upgrade", "upgrade": "h2c"}]
)
def test_nothing_that_we_know_is_asked_for(headers):
    assert asked(**headers) is None


@pytest.mark.parametrize(
    "change", [{"sec-websocket-version": "8"}, {"sec-websocket-key": ""}, {"sec-websocket-key": "c2hvcnQ="}]
)
def test_a_handshake_must_be_complete(change):
    with pytest.raises(ApiError) as refused:
        asked(**(SOCKET | change))
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("offers", "spoken", "chosen"), [("ba", "ab", "b"), ("xa", "ab", "a"), ((), ("a", ""), ""), ("xy", "ab", None)]
)
def test_the_clients_order_decides(offers, spoken, chosen):
    upgrade = Upgrade(tuple(offers))
    if chosen is not None:
        assert choose_protocol(upgrade, spoken) == chosen
        return
    with pytest.raises(ApiError, match=r"client supports \['x', 'y'\], server accepts \[a b\]"):
        choose_protocol(upgrade, spoken)
