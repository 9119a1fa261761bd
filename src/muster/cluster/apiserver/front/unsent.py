"""Limit the unsent bytes: count the bytes that slow clients have not received, and disconnect the worst clients."""

from collections.abc import Callable
from typing import Protocol

BEHIND_BYTES = 64 * 1024  # a client with more unsent bytes than this is behind, and its unsent bytes are counted
TLS_BYTES = 256 * 1024  # what the loop and TLS also keep for a connection whose client is behind (measured)
MAX_UNSENT_BYTES = 256 << 20  # the limit for the sum of all slow clients
STALLED_SECONDS = 60.0  # a client that stays behind for this long, or receives nothing of a response, is cut off
GIVE_BACK_BYTES = 64 << 20  # if this much was unsent, memory goes back to the machine when nothing is unsent


class Abortable(Protocol):
    """A transport or stream whose unsent bytes are counted."""

    def abort(self) -> None:
        """Close at once."""
        ...


class Unsent:
    """The unsent bytes of all connections of a server whose clients are behind.

    A connection counts from the moment its client falls behind until the client has caught up. While the sum is over
    the limit, the user with the most unsent bytes loses the connection that has been behind for longest. The other
    connections continue. `on_relief` is called when nothing is unsent any more after `GIVE_BACK_BYTES` or more were.
    """

    def __init__(self, limit: int, on_relief: Callable[[], object] = lambda: None) -> None:
        self._limit = limit
        self._on_relief = on_relief
        self._sizes: dict[str, dict[Abortable, int]] = {}  # by user; connections in the order in which they fell behind
        self._owners: dict[Abortable, str] = {}
        self._most = 0  # the highest total since `on_relief` was last called
        self.total = 0

    def set_unsent(self, connection: Abortable, size: int, owner: str = "") -> None:
        """Set how many bytes of a connection are unsent. If the total exceeds the limit, abort connections.

        size: 0 if the client has caught up.
        owner: the name of the user; it counts only when the connection falls behind.
        """
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
        """Stop counting a connection, because its client has caught up or disconnected."""
        owner = self._owners.pop(connection, None)
        if owner is None:
            return
        sizes = self._sizes[owner]
        self.total -= sizes.pop(connection)
        if not sizes:
            del self._sizes[owner]
        if not self.total and self._most >= GIVE_BACK_BYTES:
            self._most = 0
            self._on_relief()
