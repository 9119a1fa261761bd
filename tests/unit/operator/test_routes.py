"""A small HTTP server: whose connection each is."""

import pytest
from tests.unit.cluster.apiserver.front.http1.test_connection import Client

from muster.cluster.apiserver.identity.users import User
from muster.operator.routes import Routes
from muster.runtime.clock import run_virtual


@pytest.mark.parametrize(("user", "owner"), [(None, "10.0.0.1"), (User("kubelet"), "kubelet")])
def test_a_connection_belongs_to_its_certificate_or_its_host(user: User | None, owner: str) -> None:
    async def body() -> None:
        client = Client(Routes({}))
        client.connection.user = user
        client.connection.slot.address = "10.0.0.1"
        assert (await client.say(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert client.connection.slot.owner == owner

    run_virtual(body())
