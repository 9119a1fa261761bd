"""Release the barriers of a group that may start: send the word that opens a barrier to all of them at once.

A barrier connects, and sends its epoch and the secret of its group, which is only in the group's ConfigMap. It receives
`started UID EPOCH` as soon as the JobSet's status says that the group has started. This server decides nothing, and a
lost connection loses nothing: a barrier that receives nothing connects again or finds the word in the ConfigMap. So any
connection may be refused. The server refuses:

- a barrier that does not send its line, sends too much, or takes too long;
- a barrier of another epoch than the current one;
- the oldest barriers of a group if more barriers are connected than the group has pods.

Secrets outlive the controller that made them: its successor reads them from the existing ConfigMaps, which pods have
mounted.
"""

import asyncio
import hmac
import logging
import re
import resource
import socket
from typing import cast

from msgspec import Struct, field

from muster.api.config.types import GroupScheduling
from muster.jobs.jobset.start.barrier import STARTED, make_barrier_word
from muster.runtime.ids import Random

# Waiting connections use at most half of the files that this process may open. At most half of those connections may
# not have sent their line yet.
MOST_WAITING = 20_000
# A replaced pod leaves a stale connection, so a group may have more connections than pods.
CONNECTIONS_PER_POD = 2
# The longest line of a barrier: an epoch and a secret.
LINE_BYTES = 128
# The time limit for that line, in seconds.
PATIENCE_SECONDS = 5.0
# A vanished peer is detected after two minutes. The values are seconds idle, seconds between probes, and probes.
KEEPALIVE = (60, 15, 4)
_BACKLOG = 4096
_KEY_PARTS = 8
_SECRET = re.compile(r"[0-9a-f]{32}")

log = logging.getLogger(__name__)


class _Group(Struct):
    """The open connections of one JobSet's group in its current epoch, the oldest first."""

    secret: str
    epoch: int = 0
    most: int = 0  # the maximum number of connections
    released: bool = False
    waiting: dict["_Connection", None] = field(default_factory=dict)


class Release:
    """The server that tells waiting barriers when their group may start. Barriers keep a connection to it open.

    It knows a group, by the UID of its JobSet, after the JobSet was reconciled.
    """

    def __init__(self, settings: GroupScheduling, random: Random) -> None:
        self._settings = settings
        self._key = "".join(random.fraction().hex() for _ in range(_KEY_PARTS)).encode()
        self._server: asyncio.Server | None = None
        self._most = MOST_WAITING
        self._groups: dict[str, _Group] = {}
        self._connections: set[_Connection] = set()
        self._unknown: dict[_Connection, asyncio.TimerHandle] = {}  # connections that have not sent their line yet

    async def listen(self) -> None:
        """Start the server that releases groups, if it has an address.

        If that fails, log the error: groups are also released through their ConfigMaps.
        """
        if not self._settings.bind_address:
            return
        host, _, port = self._settings.bind_address.rpartition(":")
        loop = asyncio.get_running_loop()
        self._most = min(MOST_WAITING, _get_file_limit() // 2)
        try:
            self._server = await loop.create_server(
                lambda: _Connection(self), host.strip("[]"), int(port), backlog=_BACKLOG
            )
        except OSError as error:
            log.warning("groups of JobSets start by their ConfigMaps alone: %s", error)

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.refuse()

    def make_endpoint_line(self, uid: str, previous_line: str = "") -> str:
        """Return the server's address and the group's secret, as one line for the barriers; "" if no server runs.

        previous_line: the line in the existing ConfigMap, from this controller or its predecessor. Its secret is used
        again, because barriers may have read it.
        """
        if self._server is None:
            return ""
        host, port = self._server.sockets[0].getsockname()[:2]
        if self._settings.address:
            host, _, port = self._settings.address.rpartition(":")
        group = self._groups.get(uid)
        if group is None:
            group = self._groups[uid] = _Group(_read_secret(uid, previous_line) or self._make_secret(uid))
        return f"{host} {port} {uid}.{group.secret}"

    def set_epoch(self, uid: str, epoch: int, pods: int) -> None:
        """Set the current epoch of a group and its number of pods.

        Connections of barriers of other epochs are closed.
        """
        group = self._groups.get(uid)
        if group is None:
            return
        if group.epoch != epoch:
            _refuse_all(group)
            group.epoch, group.released = epoch, False
        group.most = pods * CONNECTIONS_PER_POD
        _trim(group)

    def release_group(self, uid: str, epoch: int) -> int:
        """Send to all connected barriers of this epoch that the group may start; return how many there were."""
        group = self._groups.get(uid)
        if group is None:
            return 0
        if group.epoch != epoch:
            _refuse_all(group)
        group.epoch, group.released = epoch, True
        waiting = list(group.waiting)
        group.waiting.clear()
        for connection in waiting:
            connection.send_release(uid, epoch)
        return len(waiting)

    def forget(self, uid: str) -> None:
        """Drop the group of a deleted JobSet."""
        if (group := self._groups.pop(uid, None)) is not None:
            _refuse_all(group)

    # Events of connections.

    def add_connection(self, connection: "_Connection") -> bool:
        """Add a new connection; return whether there is room for it."""
        if len(self._connections) >= self._most or len(self._unknown) >= self._most // 2:
            return False
        self._connections.add(connection)
        self._unknown[connection] = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, connection.refuse)
        return True

    def handle_line(self, connection: "_Connection", line: bytes) -> None:
        """Handle the line that a barrier has sent, with its epoch and the secret of its group."""
        self._stop_patience(connection)
        epoch, _, secret = line.decode(errors="replace").strip().partition(" ")
        uid, _, proof = secret.partition(".")
        group = self._groups.get(uid)
        if group is None or not _matches_secret(proof, group.secret) or epoch != str(group.epoch):
            connection.refuse()
        elif group.released:
            connection.send_release(uid, group.epoch)
        else:
            connection.group = group
            group.waiting[connection] = None
            _trim(group)

    def remove_connection(self, connection: "_Connection") -> None:
        """Stop counting a closed connection."""
        self._stop_patience(connection)
        self._connections.discard(connection)
        if connection.group is not None:
            connection.group.waiting.pop(connection, None)

    def _stop_patience(self, connection: "_Connection") -> None:
        if (patience := self._unknown.pop(connection, None)) is not None:
            patience.cancel()

    def _make_secret(self, uid: str) -> str:
        return hmac.new(self._key, uid.encode(errors="replace"), "sha256").hexdigest()[:32]


def _read_secret(uid: str, line: str) -> str:
    """Return the group's secret in an endpoint line; "" if the line contains none or belongs to another JobSet."""
    whose, _, secret = line.rpartition(" ")[2].partition(".")
    return secret if whose == uid and _SECRET.fullmatch(secret) else ""


def _matches_secret(proof: str, secret: str) -> bool:
    return hmac.compare_digest(proof.encode(errors="replace"), secret.encode())


def _refuse_all(group: _Group) -> None:
    for connection in list(group.waiting):
        connection.refuse()
    group.waiting.clear()


def _trim(group: _Group) -> None:
    while len(group.waiting) > group.most:
        oldest = next(iter(group.waiting))
        del group.waiting[oldest]
        oldest.refuse()


def _get_file_limit() -> int:
    """Return how many files this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_WAITING * 2 if soft == resource.RLIM_INFINITY else soft


class _Connection(asyncio.Protocol):
    """The connection of one barrier: it receives one line, and sends at most one."""

    def __init__(self, release: Release) -> None:
        self.group: _Group | None = None
        self._release = release
        self._transport: asyncio.Transport | None = None
        self._line = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._release.add_connection(self):
            self._transport.abort()
            return
        _keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._line.endswith(b"\n") or len(self._line) + len(data) > LINE_BYTES:
            self.refuse()  # the barrier sent more than one short line
            return
        self._line += data
        if self._line.endswith(b"\n"):
            self._release.handle_line(self, self._line)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self._release.remove_connection(self)

    def send_release(self, uid: str, epoch: int) -> None:
        """Tell the barrier that it may open, and close the connection.

        The line fits into the kernel's buffer, whether the barrier reads it or not.
        """
        assert self._transport is not None
        self._transport.write(f"{STARTED} {make_barrier_word(uid, epoch)}\n".encode())
        self._transport.close()

    def refuse(self) -> None:
        """Close the connection, so that the barrier connects again or reads the ConfigMap."""
        assert self._transport is not None
        self._transport.abort()


def _keep_alive(connection: socket.socket) -> None:
    idle, between, probes = KEEPALIVE
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, between)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
