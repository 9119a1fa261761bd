"""What a listener notes of a client before its protocol has it, and what it says of an address that it cannot have."""

import asyncio
import errno
import os

import pytest
from tests.unit.cluster.apiserver.front.http1.test_connection import Server, Transport

from muster.cluster.apiserver.front.connectionlimit import ConnectionLimit, ConnectionSlot
from muster.cluster.apiserver.front.listener import AddressUnusable, ProtocolChoice, bind_socket, describe_bind_error
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


@pytest.mark.parametrize(
    ("host", "code", "text"),
    [
        ("127.0.0.1", errno.EADDRNOTAVAIL,
         ("cannot listen on 127.0.0.1: Cannot assign requested address: "
          "the interface lo must be up and have 127.0.0.1 (ip address show lo)")),
        ("", errno.EACCES, "cannot listen on this machine: Permission denied"),
    ],
)  # fmt: skip
def test_the_listener_names_what_the_machine_lacks(host, code, text):
    assert describe_bind_error(host, OSError(code, os.strerror(code))) == text


def test_an_address_of_another_machine_cannot_be_bound():
    with pytest.raises(AddressUnusable, match=r"this machine has no such address \(ip address show\)"):
        bind_socket("192.0.2.77", 0)
