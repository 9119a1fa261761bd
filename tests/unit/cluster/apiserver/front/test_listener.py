"""What a listener notes of a client before its protocol has it."""

import asyncio

import pytest
from tests.unit.cluster.apiserver.front.http1.test_connection import Server, Transport

from muster.cluster.apiserver.front.connectionlimit import ConnectionLimit, ConnectionSlot
from muster.cluster.apiserver.front.listener import ProtocolChoice
from muster.cluster.apiserver.front.shared import Shared
from muster.cluster.apiserver.front.unsent import Unsent
from muster.runtime.clock import run_virtual


class FromPeer(Transport):
    def __init__(self, peer):
        super().__init__()
        self.peer = peer

    def get_extra_info(self, name, default=None):
        return self.peer if name == "peername" else default

    def set_protocol(self, protocol):
        self.protocol = protocol


@pytest.mark.parametrize(
    ("peer", "address"), [(("10.0.0.1", 4), "10.0.0.1"), (("::1", 4, 0, 0), "::1"), (None, ""), ("", "")]
)
def test_a_guest_has_the_address_of_its_host(peer, address):
    async def body():
        slot = ConnectionSlot(lambda: None, 0.0)
        shared = Shared(ConnectionLimit(10), Unsent(1 << 30), set(), set(), asyncio.Event())
        transport = FromPeer(peer)
        ProtocolChoice(Server(), shared, slot, 1.0).connection_made(transport)
        assert slot.address == address
        transport.abort()
        await asyncio.sleep(0)

    run_virtual(body())
