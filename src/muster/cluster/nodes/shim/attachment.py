"""Clients that are attached to a container's own process: its input, and its output beside the log.

Only for containers that have an input or a terminal; who only wants to see the output of others reads the log. The
server connects to a socket in the attempt's directory; nothing that a client does stops the container or the others,
but where its leaving ends them.
Both ways go frames: the channel (a byte), the length (four, big-endian), the data. Who wants to write to the input says
so first (WRITER), and who wants no output (DEAF); input that is empty is its end; a size is what the system call takes.

A writer that leaves, in whatever way, ends the input that is for one. A terminal that is for one it hangs up, so there
the output waits while it takes none.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket

SOCKET = "attach"
HEAD_BYTES = 5
STDIN, STDOUT, STDERR, WRITER, RESIZE, DEAF = range(6)
# Of output that a client has not taken yet; a slower one is cut off, or waited for.
_BEHIND_BYTES = 1 << 20
# Of input that the process has not read yet; from here on its writer waits.
_AHEAD_BYTES = 64 << 10
_FAREWELL_MILLISECONDS = 1000
_TIOCSWINSZ = 0x5414

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def frame(channel: int, data: bytes) -> bytes:
    """What goes over the socket."""
    return bytes((channel,)) + len(data).to_bytes(4, "big") + data


class _Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.unsent = bytearray()
        self.is_writer = False
        self.is_deaf = False


class Attachments:
    """All clients of one container."""

    def __init__(self, directory: int, input: int, *, once: bool, terminal: bool) -> None:
        """`input` is our end of the process's input; with `once` the first client that ends it ends it for good.

        Of a terminal only who leaves ends it, and who made it closes it then: see `hung_up`.
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

    def watched(self) -> list[tuple[int, int]]:
        """The descriptors to poll now, and for what."""
        wanted = [(self._listener.fileno(), select.POLLIN)]
        reading = select.POLLIN if len(self._unread) < _AHEAD_BYTES else 0
        for descriptor, client in self._clients.items():
            wanted.append((descriptor, reading | (select.POLLOUT if client.unsent else 0)))
        if self._unread and self._input >= 0:
            wanted.append((self._input, select.POLLOUT))
        return wanted

    def handle(self, descriptor: int, events: int) -> None:
        """Something can be done with one of them."""
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor == self._input:
            self._write_input()
        elif (client := self._clients.get(descriptor)) is not None:
            if events & select.POLLOUT:
                self._send(client)
            if events & ~select.POLLOUT:
                self._receive(client)

    def shower(self, channel: int) -> Callable[[bytes], None]:
        """What shows the data of a channel to all clients."""

        def show(data: bytes) -> None:
            for client in [client for client in self._clients.values() if not client.is_deaf]:
                client.unsent += frame(channel, data)
                self._send(client)
                if len(client.unsent) > _BEHIND_BYTES and not self._is_awaited(client):
                    self._drop(client)

        return show

    @property
    def hold_output(self) -> bool:
        """Whether more of it has to wait."""
        return any(len(client.unsent) > _BEHIND_BYTES and self._is_awaited(client) for client in self._clients.values())

    def _is_awaited(self, client: _Client) -> bool:
        return self._hangs_up and client.is_writer

    def close(self) -> None:
        """The container has ended: give the clients a moment to take what is left."""
        while behind := [client for client in self._clients.values() if client.unsent]:
            poll = select.poll()
            for client in behind:
                poll.register(client.connection.fileno(), select.POLLOUT)
            ready = poll.poll(_FAREWELL_MILLISECONDS)
            if not ready:
                break
            for descriptor, _ in ready:
                self._send(self._clients[descriptor])
        for client in list(self._clients.values()):
            self._drop(client)
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
            self._drop(client)
            return
        client.received += data
        while len(client.received) >= HEAD_BYTES:
            end = HEAD_BYTES + int.from_bytes(client.received[1:HEAD_BYTES], "big")
            if len(client.received) < end:
                break
            self._obey(client, client.received[0], client.received[HEAD_BYTES:end])
            client.received = client.received[end:]

    def _obey(self, client: _Client, channel: int, data: bytes) -> None:
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
        except OSError:  # it is read no more
            self._unread.clear()
        if self._ending and self._input >= 0 and not self._terminal:
            os.close(self._input)
            self._input = -1

    def _send(self, client: _Client) -> None:
        try:
            while client.unsent:
                del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        client.unsent.clear()
        if self._clients.pop(client.connection.fileno(), None) is not None:
            client.connection.close()
            if self._is_awaited(client):
                self._input, self.hung_up = -1, True
            elif client.is_writer:
                self._end_input()
