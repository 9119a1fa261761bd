"""A server that was started again on another port is found there."""

from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.actions.server.relocating import Relocating
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response, TransportError

ASKED = Request("GET", "/version")


class World:
    """A server that is at one address at a time; transports to others break."""

    def __init__(self) -> None:
        self.address = "https://127.0.0.1:1"
        self.told: str | None = self.address  # what the kubeconfig says; None while nothing runs
        self.opened: list[str] = []
        self.closed: list[str] = []

    def make(self, address: str) -> Any:
        self.opened.append(address)
        return Reaching(self, address)


class Reaching:
    def __init__(self, world: World, address: str) -> None:
        self._world, self._address = world, address

    def _reach(self) -> None:
        if self._world.address != self._address:
            raise TransportError(f"{self._address}: refused")

    async def request(self, request: Request) -> Response:
        self._reach()
        return Response(200)

    @asynccontextmanager
    async def stream(self, request: Request) -> Any:
        self._reach()
        yield None

    @asynccontextmanager
    async def converse(self, request: Request, protocol: str) -> Any:
        self._reach()
        yield None

    async def close(self) -> None:
        self._world.closed.append(self._address)


async def ask(transport: Relocating[str], how: str) -> None:
    if how == "request":
        await transport.request(ASKED)
        return
    opening = transport.stream(ASKED) if how == "stream" else transport.converse(ASKED, "v5")
    async with opening:
        pass


@pytest.mark.parametrize("how", ["request", "stream", "converse"])
def test_after_a_break_the_server_is_looked_for_where_it_is_now(how: str) -> None:
    world = World()

    async def main() -> None:
        transport = Relocating(world.make, world.address, lambda: world.told)
        await ask(transport, how)
        world.address = "https://127.0.0.1:2"
        for _ in range(2):  # it has not said yet where it is
            with pytest.raises(TransportError, match=":1: refused"):
                await ask(transport, how)
        world.told = world.address
        await ask(transport, how)
        await transport.close()

    run_virtual(main())
    assert world.opened == world.closed == ["https://127.0.0.1:1", "https://127.0.0.1:2"]


def test_the_server_is_found_after_each_of_several_outages() -> None:
    world = World()

    async def main() -> None:
        transport = Relocating(world.make, world.address, lambda: world.told)
        for number in (2, 3):
            world.address, world.told, before = f"https://127.0.0.1:{number}", None, world.told
            for _ in range(2):
                with pytest.raises(TransportError, match=f"{before}: refused"):
                    await ask(transport, "request")
            world.told = world.address
            await ask(transport, "request")

    run_virtual(main())
    assert world.opened == [f"https://127.0.0.1:{number}" for number in (1, 2, 3)]


def test_a_server_that_answers_is_not_asked_where_it_is() -> None:
    world = World()

    async def main() -> None:
        transport = Relocating(world.make, world.address, lambda: pytest.fail("nothing is broken"))
        await ask(transport, "request")
        await ask(transport, "request")

    run_virtual(main())
