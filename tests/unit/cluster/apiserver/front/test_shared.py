"""What a connection owes to its client."""

import asyncio
import socket
from contextlib import suppress

import pytest

from muster.cluster.apiserver.front.shared import has_unsent_bytes


class Transport(asyncio.Transport):
    def __init__(self, waiting: int, client: socket.socket | None) -> None:
        super().__init__({} if client is None else {"socket": client})
        self._waiting = waiting

    def get_write_buffer_size(self) -> int:
        return self._waiting


def full(line: socket.socket) -> None:
    line.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            line.send(bytes(1 << 16))


@pytest.mark.parametrize(
    ("waiting", "is_full", "is_there", "owed"),
    [
        (0, False, True, False),
        (1, False, True, True),
        (0, True, True, True),
        (0, False, False, False),
    ],
)
def test_what_has_not_left(waiting, is_full, is_there, owed):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if is_full:
            full(ours)
        assert has_unsent_bytes(Transport(waiting, ours if is_there else None)) is owed
