"""What is written to a connection in one turn of the loop goes out together, and never much at once."""

import asyncio
from typing import Any

import pytest

from muster.cluster.apiserver.front.corkedtransport import CORKED_BYTES, CorkedTransport


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = 0

    def is_closing(self) -> bool:
        return self.closed > 0

    def close(self) -> None:
        self.closed += 1

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        ([10, 20], [30]),
        ([10, CORKED_BYTES], [CORKED_BYTES, 10]),
        ([3 * CORKED_BYTES + 1], [CORKED_BYTES, CORKED_BYTES, CORKED_BYTES, 1]),
    ],
)
def test_writes(written, sizes):
    async def body():
        told: list[int] = []
        transport = Transport()
        corked = CorkedTransport(transport, told.append)
        pieces = [bytes([number]) * size for number, size in enumerate(written)]
        for piece in pieces:
            corked.write(piece)
        await asyncio.sleep(0)
        assert [len(data) for data in transport.written] == sizes
        assert b"".join(transport.written) == b"".join(pieces)
        assert told == [sum(written)]

    asyncio.run(body())


def test_what_is_written_now_takes_all_before_along():
    async def body():
        transport = Transport()
        corked = CorkedTransport(transport, lambda _: None)
        corked.write(b"100 Continue, ")
        corked.write_now(b"200 OK")
        assert transport.written == [b"100 Continue, 200 OK"]
        await asyncio.sleep(0)
        assert len(transport.written) == 1

    asyncio.run(body())


def test_the_transport_is_closed_once():
    async def body():
        transport = Transport()
        corked = CorkedTransport(transport, lambda _: None)
        corked.write(b"bye")
        corked.close()
        corked.close()
        assert (transport.written, transport.closed) == ([b"bye"], 1)

    asyncio.run(body())
