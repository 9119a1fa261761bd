"""Who is connected, and who has to go when there are as many as are let in."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from heapq import nlargest

MAX_CONNECTIONS = 4096
LEAVING_AT_ONCE = 16  # to look for them costs as much as to let some in
# When so many came at once that there is no room, most of them are soon gone. For so long no connection has to
# go that was idle for less than this, or is busy.
PATIENCE_SECONDS = 1.0
MANY = 256  # once so many were connected, memory goes back to the machine when most of them are gone


@dataclass(slots=True, eq=False)
class Guest:
    """A connection, from before its TLS handshake on.

    leave: ends it at once.
    idle_since: when its last request was answered, or it came; None while there is a request, or a watch.
    owner: whose it is; empty until a request has said it.
    address: the host that it comes from.
    """

    leave: Callable[[], object]
    idle_since: float | None
    owner: str = ""
    address: str = ""


class Crowd:
    """All who are connected, not more than so many.

    `relieved` is called when three in four of many connections are gone.
    """

    def __init__(self, most: int, relieved: Callable[[], object] = lambda: None) -> None:
        self._most = most
        self._relieved = relieved
        self._peak = 0  # since the last relief
        self._guests: dict[Guest, None] = {}
        self._full_since: float | None = None  # and no connection has ended by itself since

    def __len__(self) -> int:
        """How many there are."""
        return len(self._guests)

    def make_room(self, now: float) -> bool:
        """Whether one more may come, for whom others may have to go."""
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
        """One more has come, for whom there was room."""
        self._guests[guest] = None
        self._peak = max(self._peak, len(self._guests))

    def left(self, guest: Guest) -> None:
        """It is gone, or as good as gone."""
        self._guests.pop(guest, None)
        if self._peak >= MANY and len(self._guests) * 4 <= self._peak:
            self._peak = len(self._guests)
            self._relieved()


def leaving(guests: Collection[Guest], count: int) -> list[Guest]:
    """Up to so many who may go: of those whose owner has the most, the ones that were idle for longest.

    If none is idle, one with a request goes, of an owner who has more than an eighth of all; else none.
    """
    have = Counter(guest.owner for guest in guests)
    waiting = [(have[guest.owner], -guest.idle_since, guest) for guest in guests if guest.idle_since is not None]
    if waiting:
        return [guest for *_, guest in nlargest(count, waiting, key=lambda item: item[:2])]
    owner, most = have.most_common(1)[0]
    if most * 8 <= len(guests):
        return []
    return [next(guest for guest in reversed([*guests]) if guest.owner == owner)]
