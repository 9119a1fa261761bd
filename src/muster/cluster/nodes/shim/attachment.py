"""Connect clients to a container's main process: to its input, and to its output in addition to the log.

Only containers with an input or a terminal use this module; clients read the output of other containers from the log.
The server connects to a socket in the attempt's directory. No action of a client stops the container or other clients,
unless the client's disconnection closes the input (see below).

Frames go both ways: the channel (a byte), the length (four bytes, big-endian), the data. A client that wants to write
to the input first sends a WRITER frame, and a client that wants no output sends a DEAF frame. An empty input frame
closes the input. A resize frame contains the argument of the system call.

With `once`, the first writer that disconnects closes the input. For a terminal this is a hang-up, so the terminal's
output waits while the writer does not read.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket

SOCKET = "attach"
HEAD_BYTES = 5
STDIN, STDOUT, STDERR, WRITER, RESIZE, DEAF = range(6)
# The maximum output buffered for a client. A client that is slower is dropped, or the container's output waits for it.
_BEHIND_BYTES = 1 << 20
# The maximum input buffered for the process. A writer of more input has to wait.
_AHEAD_BYTES = 64 << 10
_FAREWELL_MILLISECONDS = 1000
_TIOCSWINSZ = 0x5414

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def encode_frame(channel: int, data: bytes) -> bytes:
    """Return the data as a frame of this channel, in the format that clients of the socket read."""
    return bytes((channel,)) + len(data).to_bytes(4, "big") + data


class _Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.unsent = bytearray()
        self.is_writer = False
        self.is_deaf = False


class Attachments:
    """The clients that are attached to one container."""

    def __init__(self, directory: int, input: int, *, once: bool, terminal: bool) -> None:
        """Listen for clients on a socket in the directory.

        input: this process's end of the container's input.
        once: whether the first client that closes the input closes it permanently.
        terminal: whether the input is a terminal. If its writer disconnects, `hung_up` becomes true, and the supervisor
        then closes the terminal.
        """
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"/proc/self/fd/{directory}/{SOCKET}")
        self._listener.listen(8)
        self._listener.setblocking(False)
        self._clients: dict[int, _Client] = {}
        self._input = input
        self._once = once
        self._terminal = terminal
        self._hangs_up = once and terminal
        self._unread = bytearray()
        self._ending = False
        self.hung_up = False
        os.set_blocking(input, False)

    def list_watched(self) -> list[tuple[int, int]]:
        """Return the descriptors to poll now, each with its events."""
        polled = [(self._listener.fileno(), select.POLLIN)]
        reading = select.POLLIN if len(self._unread) < _AHEAD_BYTES else 0
        for descriptor, client in self._clients.items():
            polled.append((descriptor, reading | (select.POLLOUT if client.unsent else 0)))
        if self._unread and self._input >= 0:
            polled.append((self._input, select.POLLOUT))
        return polled

    def handle(self, descriptor: int, events: int) -> None:
        """Handle the events that `poll` returned for one of the watched descriptors."""
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor == self._input:
            self._write_input()
        elif (client := self._clients.get(descriptor)) is not None:
            if events & select.POLLOUT:
                self._send_unsent(client)
            if events & ~select.POLLOUT:
                self._receive(client)

    def make_sender(self, channel: int) -> Callable[[bytes], None]:
        """Return a function that sends data to all clients that want output, on this channel."""

        def show(data: bytes) -> None:
            for client in [client for client in self._clients.values() if not client.is_deaf]:
                client.unsent += encode_frame(channel, data)
                self._send_unsent(client)
                if len(client.unsent) > _BEHIND_BYTES and not self._is_awaited(client):
                    self._drop_client(client)

        return show

    @property
    def hold_output(self) -> bool:
        """Whether further output must stay in its pipe, because a client does not read."""
        return any(len(client.unsent) > _BEHIND_BYTES and self._is_awaited(client) for client in self._clients.values())

    def _is_awaited(self, client: _Client) -> bool:
        return self._hangs_up and client.is_writer

    def close(self) -> None:
        """Close the connections, after the clients had a short time to read the container's remaining output."""
        while behind := [client for client in self._clients.values() if client.unsent]:
            poll = select.poll()
            for client in behind:
                poll.register(client.connection.fileno(), select.POLLOUT)
            ready = poll.poll(_FAREWELL_MILLISECONDS)
            if not ready:
                break
            for descriptor, _ in ready:
                self._send_unsent(self._clients[descriptor])
        for client in list(self._clients.values()):
            self._drop_client(client)
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        self._clients[connection.fileno()] = _Client(connection)

    def _receive(self, client: _Client) -> None:
        try:
            data = client.connection.recv(_AHEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop_client(client)
            return
        client.received += data
        while len(client.received) >= HEAD_BYTES:
            end = HEAD_BYTES + int.from_bytes(client.received[1:HEAD_BYTES], "big")
            if len(client.received) < end:
                break
            self._handle_frame(client, client.received[0], client.received[HEAD_BYTES:end])
            client.received = client.received[end:]

    def _handle_frame(self, client: _Client, channel: int, data: bytes) -> None:
        if channel == WRITER:
            client.is_writer = True
        elif channel == DEAF:
            client.is_deaf = True
        elif channel == RESIZE and self._terminal and self._input >= 0:
            try:
                fcntl.ioctl(self._input, _TIOCSWINSZ, data)
            except OSError:
                return
        elif channel == STDIN and data:
            self._unread += data
            self._write_input()
        elif channel == STDIN:
            self._end_input()

    def _end_input(self) -> None:
        if self._once:
            self._ending = True
            self._write_input()

    def _write_input(self) -> None:
        try:
            while self._unread and self._input >= 0:
                del self._unread[: os.write(self._input, self._unread)]
        except BlockingIOError:
            return
        except OSError:  # no process reads the input any more
            self._unread.clear()
        if self._ending and self._input >= 0 and not self._terminal:
            os.close(self._input)
            self._input = -1

    def _send_unsent(self, client: _Client) -> None:
        try:
            while client.unsent:
                del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._drop_client(client)

    def _drop_client(self, client: _Client) -> None:
        client.unsent.clear()
        if self._clients.pop(client.connection.fileno(), None) is not None:
            client.connection.close()
            if self._is_awaited(client):
                self._input, self.hung_up = -1, True
            elif client.is_writer:
                self._end_input()
