"""What slow clients have not taken, of all together, and who is cut off when that is too much."""

from collections.abc import Callable
from typing import Protocol

BEHIND_BYTES = 64 * 1024  # with more than this unsent a client is behind, and what it has not taken is counted
TLS_BYTES = 256 * 1024  # that the loop and TLS keep beside it for a connection whose client is behind (measured)
MAX_UNSENT_BYTES = 256 << 20  # of all clients that do not take their answers as fast as they come
STALLED_SECONDS = 60.0  # a client that takes nothing of its answer for so long is cut off
GIVE_BACK_BYTES = 64 << 20  # once so much was unsent, memory goes back to the machine when all of it is gone


class Abortable(Protocol):
    """A transport, as far as it is counted."""

    def abort(self) -> None:
        """Close it at once."""
        ...


class Unsent:
    """What all connections together were given to send and have not sent, as far as it is much.

    A connection counts from when its client falls behind until it has caught up. When all together are over the limit,
    the user who owes most loses the connection that has been behind for longest: the others go on. `relieved` is called
    when much was unsent and nothing is any more.
    """

    def __init__(self, limit: int, relieved: Callable[[], object] = lambda: None) -> None:
        self._limit = limit
        self._relieved = relieved
        self._sizes: dict[str, dict[Abortable, int]] = {}  # by user; connections in the order in which they fell behind
        self._owners: dict[Abortable, str] = {}
        self._most = 0  # since the last relief
        self.total = 0

    def owes(self, connection: Abortable, size: int, owner: str = "") -> None:
        """So many bytes wait for this client of a user, of those before and new ones together."""
        if not size:
            self.forget(connection)
            return
        owner = self._owners.setdefault(connection, owner)
        sizes = self._sizes.setdefault(owner, {})
        self.total += size - sizes.get(connection, 0)
        sizes[connection] = size
        self._most = max(self._most, self.total)
        while self.total > self._limit:
            greediest = max(self._sizes.values(), key=lambda sizes: sum(sizes.values()))
            longest = next(iter(greediest))
            self.forget(longest)
            longest.abort()

    def forget(self, connection: Abortable) -> None:
        """Its client has caught up, or is gone."""
        owner = self._owners.pop(connection, None)
        if owner is None:
            return
        sizes = self._sizes[owner]
        self.total -= sizes.pop(connection)
        if not sizes:
            del self._sizes[owner]
        if not self.total and self._most >= GIVE_BACK_BYTES:
            self._most = 0
            self._relieved()
