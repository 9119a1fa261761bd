"""The protocol between rank 0 and an agent, over TLS with the job's certificate on both ends.

Rank 0 sends one line of JSON, a `CommandRequest`. After that, rank 0 may send signals, each as one byte with the
signal's number. The agent responds with frames: one byte for the channel, four bytes for the length of the data, and
the data.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

# The channels. For a command: its exit code in digits, and its output. On the long-lived connection of rank 0: the
# agent is ready, and its worker is being stopped.
ENDED, STDOUT, STDERR, HERE, ENDING = 0, 1, 2, 3, 4
# Sent by rank 0 on the long-lived connection once `mpirun` has ended. If the connection ends without it, rank 0 has
# failed.
FAREWELL = b"bye\n"

_LENGTH_BYTES = 4
MOST_OF_A_LINE = 1 << 20  # the maximum line length in bytes; a daemon of Open MPI gets all host names


class CommandRequest(Struct, frozen=True, omit_defaults=True):
    """A request to run a command. An empty command keeps the connection open while `mpirun` runs."""

    command: str = ""


class StrangeRequestError(Exception):
    """A first line from rank 0 that is no valid `CommandRequest`."""


def encode_frame(channel: int, data: bytes = b"") -> bytes:
    """Encode one frame of an agent's response: the channel, the length of the data, and the data."""
    return bytes((channel,)) + len(data).to_bytes(_LENGTH_BYTES) + data


async def read_frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the channel and the data of each frame, until the agent closes the connection."""
    while True:
        try:
            header = await reader.readexactly(1 + _LENGTH_BYTES)
            data = await reader.readexactly(int.from_bytes(header[1:]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        yield header[0], data


def request_line(request: CommandRequest) -> bytes:
    """Encode a request as the line of JSON that rank 0 sends."""
    return msgspec.json.encode(request) + b"\n"


async def read_request(reader: asyncio.StreamReader) -> CommandRequest:
    """Read the first line of a connection as a request. Raises `StrangeRequestError`."""
    try:
        line = await reader.readuntil()
        return msgspec.json.decode(line, type=CommandRequest)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, msgspec.MsgspecError, ConnectionError) as error:
        raise StrangeRequestError(str(error)) from None
