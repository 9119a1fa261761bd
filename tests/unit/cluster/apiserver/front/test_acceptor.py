"""Who is let in first when many clients come at once."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from muster.cluster.apiserver.front import acceptor
from muster.cluster.apiserver.front.acceptor import BACKLOG, Acceptor
from muster.cluster.apiserver.front.connectionlimit import ConnectionLimit, ConnectionSlot

ADA, BOB = 1000, 1001


@pytest.mark.parametrize("turns", range(8))
def test_a_client_that_has_not_got_in_is_disconnected_at_the_end(tmp_path: Path, turns: int) -> None:
    welcomed: list[asyncio.Transport] = []

    class Guest(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            welcomed.append(transport)

    async def body() -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        listener.listen(BACKLOG)
        limit = ConnectionLimit(1)
        accepting = Acceptor(listener, None, limit, lambda _slot, _deadline: Guest())
        accepting.open()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            client.send(b"G")
            for _ in range(turns):
                await asyncio.sleep(0)
            accepting.close()
            for _ in range(3):
                await asyncio.sleep(0)
            for transport in welcomed:
                transport.close()
            await asyncio.sleep(0.01)
            client.settimeout(5)
            with suppress(ConnectionResetError):  # nobody has read what it sent
                assert client.recv(1) == b""

    asyncio.run(body())


def test_a_user_who_comes_behind_a_crowd_of_another_is_let_in_among_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arriving = [ADA] * 100 + [BOB]
    peers = iter(arriving)
    monkeypatch.setattr(acceptor, "peer_of", lambda client: next(peers))  # the kernel names one user for all of these
    entered: list[int | None] = []

    def welcome(slot: ConnectionSlot, deadline: float) -> asyncio.Protocol:
        entered.append(slot.peer)
        return asyncio.Protocol()

    async def body() -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        listener.listen(BACKLOG)
        clients = [socket.socket(socket.AF_UNIX) for _ in arriving]
        for client in clients:
            client.connect(str(tmp_path / "s"))
            client.send(b"G")
        accepting = Acceptor(listener, None, ConnectionLimit(len(arriving)), welcome)
        accepting.open()
        async with asyncio.timeout(60):
            while len(entered) < len(arriving):
                await asyncio.sleep(0)
        accepting.close()
        for client in clients:
            client.close()

    asyncio.run(body())
    assert sorted(entered, key=str) == arriving
    assert entered.index(BOB) < 10
