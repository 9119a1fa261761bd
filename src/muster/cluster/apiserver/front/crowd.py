"""The bound on connections: the crowd counts clients, and chooses which one to disconnect when the server is full."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from heapq import nlargest

from muster.cluster.apiserver.identity.users import User

MAX_CONNECTIONS = 4096
LEAVING_AT_ONCE = 16  # disconnected together: finding them costs as much as admitting several clients
# Most clients of a burst disconnect soon. Until the crowd was full for this long, it disconnects only connections that
# were idle for this long.
PATIENCE_SECONDS = 1.0
MANY = 256  # from this peak on, memory goes back to the machine once most connections are closed


@dataclass(slots=True, eq=False)
class Guest:
    """A connection, counted from before its TLS handshake.

    leave: closes the connection at once.
    idle_since: when the connection opened or its last request was answered; None while a request or watch is under way.
    owner: the user of the last request; "" before the first one.
    address: the host of the client.
    peer: the id of the Unix user at the other end of a local socket; None for any other connection.
    user: the user of the API that the peer is, once the application knows it.
    """

    leave: Callable[[], object]
    idle_since: float | None
    owner: str = ""
    address: str = ""
    peer: int | None = None
    user: User | None = None


class Crowd:
    """All connections of a server, at most `most` of them.

    The crowd calls `relieved` when three in four of many connections are closed.
    """

    def __init__(self, most: int, relieved: Callable[[], object] = lambda: None) -> None:
        self._most = most
        self._relieved = relieved
        self._peak = 0  # the most connections since `relieved` was last called
        self._guests: dict[Guest, None] = {}
        self._full_since: float | None = None  # None once a connection has ended by itself

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._guests)

    def make_room(self, now: float) -> bool:
        """Return whether one more connection may enter, after disconnecting others if the crowd is full."""
        if len(self._guests) < self._most:
            self._full_since = None
            return True
        if self._full_since is None:
            self._full_since = now
        long_ago = now - PATIENCE_SECONDS
        for other in leaving(self._guests, LEAVING_AT_ONCE):
            if self._full_since <= long_ago or (other.idle_since is not None and other.idle_since <= long_ago):
                self.left(other)
                other.leave()
        return len(self._guests) < self._most

    def enter(self, guest: Guest) -> None:
        """Count one more connection. Call `make_room` first."""
        self._guests[guest] = None
        self._peak = max(self._peak, len(self._guests))

    def left(self, guest: Guest) -> None:
        """Count a connection no more: it is closed, or about to close."""
        self._guests.pop(guest, None)
        if self._peak >= MANY and len(self._guests) * 4 <= self._peak:
            self._peak = len(self._guests)
            self._relieved()


def leaving(guests: Collection[Guest], count: int) -> list[Guest]:
    """Return up to `count` connections to close: idle ones, those of the biggest owner first, longest idle first.

    If no connection is idle, the newest connection of the biggest owner is returned, provided that this owner has more
    than an eighth of all connections.
    """
    have = Counter(guest.owner for guest in guests)
    waiting = [(have[guest.owner], -guest.idle_since, guest) for guest in guests if guest.idle_since is not None]
    if waiting:
        return [guest for *_, guest in nlargest(count, waiting, key=lambda item: item[:2])]
    owner, most = have.most_common(1)[0]
    if most * 8 <= len(guests):
        return []
    return [next(guest for guest in reversed([*guests]) if guest.owner == owner)]
