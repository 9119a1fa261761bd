"""Forward ports: carry connections of the client to ports of a pod."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from muster.cluster.apiserver.pods.tunnels.channels import DIALECTS, decode, encode
from muster.cluster.apiserver.pods.tunnels.spdy import PROTOCOL_ERROR, REFUSED_STREAM, Data, Event, Opened, Reset, Spdy
from muster.cluster.apiserver.pods.tunnels.wire import Wire, WireError
from muster.cluster.nodeconnection import Dial
from muster.runtime.tasks import cancel

MAX_CONNECTIONS = 1000  # the most open connections of one client
_PIECE_BYTES = 32 << 10
# The maximum number of queued pieces for a port. When it is reached, the client's other connections wait too.
_QUEUED_PIECES = 8

Send: TypeAlias = Callable[[bytes], Awaitable[None]]


class _Connection(Struct):
    """One forwarded connection: the queued pieces for the port, and the task that carries them.

    data, error: the numbers of the connection's streams or channels. A stream has 0 before the client opens it.
    over: whether no more pieces are sent to the port.
    task: the task that carries the connection; None before it starts, and for channels.
    """

    port: int
    data: int = 0
    error: int = 0
    pieces: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_QUEUED_PIECES))
    over: bool = False
    task: asyncio.Task[None] | None = None

    async def feed(self, piece: bytes) -> None:
        """Queue a piece for the port, and wait while the queue is full. An empty piece closes the client's side."""
        if not self.over:
            await self.pieces.put(piece)

    def end(self) -> None:
        """Drop all pieces and all later ones. This releases a task that waits in `feed`."""
        self.over = True
        while not self.pieces.empty():
            self.pieces.get_nowait()


async def over_streams(dial: Dial, wire: Wire) -> None:
    """Forward ports until the client disconnects, with two SPDY streams for each connection, one of them for errors.

    Raises `WireError`, `SpdyError`.
    """
    forwarding = _Forwarding(dial, wire)
    try:
        await forwarding.run()
    finally:
        await forwarding.stop()


async def over_channels(dial: Dial, dialect: str, ports: Sequence[int], wire: Wire) -> None:
    """Forward one connection to each port, in two channels of a WebSocket each, one of them for errors.

    Return when the client disconnects or all connections have closed. Raises `WireError`, `ChannelError`.

    dialect: the name of the subprotocol.
    """
    connections = [_Connection(port, 2 * number, 2 * number + 1) for number, port in enumerate(ports)]
    spoken = DIALECTS[dialect]

    def sender(channel: int) -> Send:
        return lambda data: wire.send(encode(spoken, channel, data))

    async def listen() -> None:
        while message := await wire.receive():
            piece = decode(spoken, message)
            if piece is not None and piece.data and piece.channel in by_channel:
                await by_channel[piece.channel].feed(piece.data)

    async def carry() -> None:
        await asyncio.gather(*(_carry(each, dial, sender(each.data), sender(each.error)) for each in connections))

    by_channel = {connection.data: connection for connection in connections}
    for connection in connections:
        for channel in (connection.data, connection.error):
            await sender(channel)(connection.port.to_bytes(2, "little"))
    listening, carrying = asyncio.create_task(listen()), asyncio.create_task(carry())
    try:
        done, _ = await asyncio.wait({listening, carrying}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel([listening, carrying])
    await wire.close()


class _Forwarding:
    """The forwarded connections of one client, in streams of SPDY."""

    def __init__(self, dial: Dial, wire: Wire) -> None:
        self._dial = dial
        self._wire = wire
        self._spdy = Spdy()
        self._half_open: dict[str, _Connection] = {}  # connections with only one of their two streams, by request id
        self._by_data: dict[int, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve the client until it disconnects."""
        while data := await self._wire.receive():
            for event in self._spdy.receive(data):
                if answer := await self._handle_event(event):
                    await self._wire.send(answer)
            if answers := self._spdy.take_answers():
                await self._wire.send(answers)

    async def stop(self) -> None:
        """Close all connections."""
        await cancel(list(self._tasks))

    async def _handle_event(self, event: Event) -> bytes:
        match event:
            case Opened(stream, headers):
                return self._open_stream(stream, headers)
            case Data(stream, data, last) if stream in self._by_data:
                if data:
                    await self._by_data[stream].feed(data)
                if last:
                    await self._by_data[stream].feed(b"")
            case Reset(stream):
                self._forget(stream)
        return b""

    def _forget(self, stream: int) -> None:
        """Close the connection of a data stream that the client has reset, or of any stream if it is half open."""
        for request, connection in list(self._half_open.items()):
            if stream in {connection.data, connection.error} - {0}:
                del self._half_open[request]
                self._by_data.pop(connection.data, None)
        started = self._by_data.pop(stream, None)
        if started is not None and started.task is not None:
            started.task.cancel()

    def _open_stream(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Accept a stream, and start its connection when both streams are open; return the frame of the answer.

        An invalid stream, or one of a connection beyond `MAX_CONNECTIONS`, is reset.
        """
        kind, port, request = (headers.get(name, "") for name in ("streamtype", "port", "requestid"))
        if (
            kind not in ("error", "data")
            or not request
            or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536)
        ):
            return self._spdy.encode_reset(stream, PROTOCOL_ERROR)
        connection = self._half_open.get(request)
        if connection is None:
            if len(self._tasks) + len(self._half_open) >= MAX_CONNECTIONS:
                return self._spdy.encode_reset(stream, REFUSED_STREAM)
            connection = self._half_open[request] = _Connection(int(port))
        elif getattr(connection, kind):
            return self._spdy.encode_reset(stream, PROTOCOL_ERROR)  # the connection has such a stream
        setattr(connection, kind, stream)
        if kind == "data":
            self._by_data[stream] = connection
        if connection.data and connection.error:
            del self._half_open[request]
            self._start(connection)
        return self._spdy.encode_reply(stream)

    def _start(self, connection: _Connection) -> None:
        connection.task = asyncio.create_task(self._serve(connection))
        self._tasks.add(connection.task)
        connection.task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: _Connection) -> None:
        async def send(data: bytes) -> None:
            await self._wire.send(self._spdy.encode_data(connection.data, data))

        async def complain(data: bytes) -> None:
            await self._wire.send(self._spdy.encode_data(connection.error, data))

        try:
            await _carry(connection, self._dial, send, complain)
            for stream in (connection.data, connection.error):
                await self._wire.send(self._spdy.encode_data(stream, b"", last=True))
        except WireError:
            return  # the task that reads the wire meets the same error
        finally:
            self._by_data.pop(connection.data, None)


async def _carry(connection: _Connection, dial: Dial, send: Send, complain: Send) -> None:
    """Connect to the port, and carry data in both directions until the port's side closes. Raises `WireError`.

    send: sends data from the port to the client.
    complain: sends an error to the client.
    """
    try:
        port = await dial(connection.port)
    except OSError as error:
        connection.end()
        await complain(str(error).encode())
        return
    writing = asyncio.create_task(_write(connection, port))
    try:
        # asyncio's streams are not used, because they lose data that they have read when a write fails.
        while data := await asyncio.get_running_loop().sock_recv(port, _PIECE_BYTES):
            await send(data)
    except OSError as error:
        await complain(f"the connection to port {connection.port} broke: {error.strerror}".encode())
    finally:
        connection.end()
        await cancel([writing])
        port.close()


async def _write(connection: _Connection, port: socket.socket) -> None:
    """Write the queued pieces to the port, and close that direction after an empty piece."""
    try:
        while piece := await connection.pieces.get():
            await asyncio.get_running_loop().sock_sendall(port, piece)
        port.shutdown(socket.SHUT_WR)
    except OSError:
        connection.end()  # the task that reads from the port reports the error
