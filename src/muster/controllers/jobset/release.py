"""Where barriers wait for the word that their group may start: it reaches all of them at once.

A barrier connects, says its epoch and the secret of its group, which only its ConfigMap has, and reads. It hears
`started EPOCH` as soon as that stands in the JobSet's status, at once if it does already. Nothing here decides and
nothing is kept: whoever hears nothing, for whatever reason, finds the word in the ConfigMap. So it may refuse whom it
likes, and does where there are too many: who does not say who he is, who says too much, who takes too long.
"""

import asyncio
import hmac
import logging
from contextlib import suppress
from typing import cast

from muster.api.config.types import GroupScheduling
from muster.jobs.jobset.start.barrier import STARTED
from muster.runtime.ids import Random

# Connections that may wait, and those of them that need not have said yet for whom.
MOST_WAITING, MOST_UNKNOWN = 20_000, 5_000
# What one says: an epoch and a secret.
LINE_BYTES = 128
# How long one may take to say it.
PATIENCE_SECONDS = 5.0
_BACKLOG = 4096
_KEY_PARTS = 8

log = logging.getLogger(__name__)


class Release:
    """Groups are known by the UIDs of their JobSets."""

    def __init__(self, settings: GroupScheduling, random: Random) -> None:
        self._settings = settings
        self._key = "".join(random.fraction().hex() for _ in range(_KEY_PARTS)).encode()
        self._server: asyncio.Server | None = None
        self._waiting: dict[tuple[str, int], set[_Barrier]] = {}
        self._released: dict[str, int] = {}  # the epoch of each group that was released, as far as it is known here
        self._connections: set[_Barrier] = set()
        self._unknown: dict[_Barrier, asyncio.TimerHandle] = {}  # who has not said yet for whom he waits

    async def listen(self) -> None:
        """Begin to answer, if there is an address."""
        if not self._settings.bind_address:
            return
        host, _, port = self._settings.bind_address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Barrier(self), host.strip("[]"), int(port), backlog=_BACKLOG
            )
        except OSError as error:
            log.warning("groups of JobSets start by their ConfigMaps alone: %s", error)

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
        for barrier in list(self._connections):
            barrier.close()

    def endpoint(self, uid: str) -> str:
        """Where the barriers of a group connect, and their secret, in one line; "" if nowhere."""
        if self._server is None:
            return ""
        host, port = self._server.sockets[0].getsockname()[:2]
        if self._settings.address:
            host, _, port = self._settings.address.rpartition(":")
        return f"{host} {port} {uid}.{self._secret(uid)}"

    def open(self, uid: str, epoch: int) -> int:
        """The group may start; how many hear it now."""
        self._released[uid] = epoch
        waiting = self._waiting.pop((uid, epoch), set())
        for barrier in waiting:
            barrier.open(epoch)
        return len(waiting)

    def forget(self, uid: str) -> None:
        """The group is no more."""
        self._released.pop(uid, None)
        for key in [key for key in self._waiting if key[0] == uid]:
            for barrier in self._waiting.pop(key):
                barrier.close()

    # What barriers do.

    def came(self, barrier: "_Barrier") -> bool:
        """One has connected; whether there is room for him."""
        if len(self._connections) >= MOST_WAITING or len(self._unknown) >= MOST_UNKNOWN:
            return False
        self._connections.add(barrier)
        self._unknown[barrier] = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, barrier.close)
        return True

    def said(self, barrier: "_Barrier", line: bytes) -> None:
        """One says for whom he waits."""
        self._is_known(barrier)
        epoch, _, secret = line.decode(errors="replace").strip().partition(" ")
        uid, _, proof = secret.partition(".")
        if not (epoch.isascii() and epoch.isdigit()) or not hmac.compare_digest(
            proof.encode(errors="replace"), self._secret(uid).encode()
        ):
            barrier.close()
        elif self._released.get(uid) == int(epoch):
            barrier.open(int(epoch))
        else:
            barrier.group = uid, int(epoch)
            self._waiting.setdefault(barrier.group, set()).add(barrier)

    def left(self, barrier: "_Barrier") -> None:
        """One has gone."""
        self._is_known(barrier)
        self._connections.discard(barrier)
        if barrier.group is not None and (others := self._waiting.get(barrier.group)) is not None:
            others.discard(barrier)
            if not others:
                del self._waiting[barrier.group]

    def _is_known(self, barrier: "_Barrier") -> None:
        with suppress(KeyError):
            self._unknown.pop(barrier).cancel()

    def _secret(self, uid: str) -> str:
        return hmac.new(self._key, uid.encode(errors="replace"), "sha256").hexdigest()[:32]


class _Barrier(asyncio.Protocol):
    """One connection: a line comes in, and at most one goes out."""

    def __init__(self, release: Release) -> None:
        self.group: tuple[str, int] | None = None
        self._release = release
        self._transport: asyncio.Transport | None = None
        self._line = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._release.came(self):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.group is not None or len(self._line) + len(data) > LINE_BYTES:
            self.close()  # he has said all that there is to say
            return
        self._line += data
        if self._line.endswith(b"\n"):
            self._release.said(self, self._line)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self._release.left(self)

    def open(self, epoch: int) -> None:
        """He may start. The line fits into what the kernel keeps, whether he reads or not."""
        assert self._transport is not None
        self._transport.write(f"{STARTED} {epoch}\n".encode())
        self._transport.close()

    def close(self) -> None:
        """He has to look elsewhere."""
        assert self._transport is not None
        self._transport.abort()
