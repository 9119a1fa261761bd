"""Limit the number of connections, and choose which ones to close when the server is full."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from heapq import nlargest

from msgspec import Struct

from muster.cluster.apiserver.identity.users import User

MAX_CONNECTIONS = 4096
LEAVING_AT_ONCE = 16  # connections that are closed in one step: finding them costs as much as admitting several clients
# Most clients of a burst disconnect soon. Until the server was full for this long, only connections that were idle for
# this long are closed.
PATIENCE_SECONDS = 1.0
MANY = 256  # from this peak on, memory goes back to the machine once most connections are closed


# Returns the API user for a user ID of this machine. Raises `ApiError` for a user whom the server does not serve.
FindPeer = Callable[[int], Awaitable[User]]


class ConnectionSlot(Struct, eq=False):
    """The entry of one connection in the limit, from before the TLS handshake until the connection closes.

    close: closes the connection at once.
    idle_since: when the connection opened or its last response ended; None during a request or watch.
    owner: the user of the last request; "" before the first one.
    address: the host of the client.
    peer: the ID of the Unix user at the other end of a local socket; None for any other connection.
    find_peer: returns the API user of the peer; None if the listener serves no local users.
    user: the API user of the peer, after the application has looked it up.
    is_secure: whether the connection uses TLS.
    certified_until: when the client's certificate expires; None without one.
    """

    close: Callable[[], object]
    idle_since: float | None
    owner: str = ""
    address: str = ""
    peer: int | None = None
    find_peer: FindPeer | None = None
    user: User | None = None
    is_secure: bool = False
    certified_until: datetime | None = None


class ConnectionLimit:
    """The connections of a server, at most `most` of them.

    on_relief: called when at least `MANY` connections were open and three quarters of them have closed.
    """

    def __init__(self, most: int, on_relief: Callable[[], object] = lambda: None) -> None:
        self._most = most
        self._on_relief = on_relief
        self._peak = 0  # the most connections since `on_relief` was last called
        self._slots: dict[ConnectionSlot, None] = {}
        self._full_since: float | None = None  # None once there was room without closing a connection

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._slots)

    def make_room(self, now: float) -> bool:
        """Return whether there is room for one more connection. If the server is full, close others first.

        now: the time on the clock of `idle_since`, in seconds.
        """
        if len(self._slots) < self._most:
            self._full_since = None
            return True
        if self._full_since is None:
            self._full_since = now
        long_ago = now - PATIENCE_SECONDS
        for other in choose_evicted(self._slots, LEAVING_AT_ONCE):
            if self._full_since <= long_ago or (other.idle_since is not None and other.idle_since <= long_ago):
                self.release(other)
                other.close()
        return len(self._slots) < self._most

    def enter(self, slot: ConnectionSlot) -> None:
        """Count one more connection. Call `make_room` first."""
        self._slots[slot] = None
        self._peak = max(self._peak, len(self._slots))

    def release(self, slot: ConnectionSlot) -> None:
        """Stop counting a connection that is closed or about to close."""
        self._slots.pop(slot, None)
        if self._peak >= MANY and len(self._slots) * 4 <= self._peak:
            self._peak = len(self._slots)
            self._on_relief()


def choose_evicted(slots: Collection[ConnectionSlot], count: int) -> list[ConnectionSlot]:
    """Return up to `count` idle connections to close: of the owner with the most first, then the longest idle first.

    If no connection is idle, return the newest connection of the owner with the most connections, provided that this
    owner has more than an eighth of all connections.
    """
    have = Counter(slot.owner for slot in slots)
    waiting = [(have[slot.owner], -slot.idle_since, slot) for slot in slots if slot.idle_since is not None]
    if waiting:
        return [slot for *_, slot in nlargest(count, waiting, key=lambda item: item[:2])]
    owner, most = have.most_common(1)[0]
    if most * 8 <= len(slots):
        return []
    return [next(slot for slot in reversed([*slots]) if slot.owner == owner)]
