"""What slow clients have not taken, of all together, and who is cut off when that is too much."""

from typing import Protocol

BEHIND_BYTES = 128 * 1024  # with more than this unsent a client is behind, and what it has not taken is counted
MAX_UNSENT_BYTES = 256 << 20  # of all clients that do not take their answers as fast as they come
STALLED_SECONDS = 60.0  # a client that takes nothing of its answer for so long is cut off


class Abortable(Protocol):
    """A transport, as far as it is counted."""

    def abort(self) -> None:
        """Close it at once."""
        ...


class Unsent:
    """What all connections together were given to send and have not sent, as far as it is much.

    A connection counts from when its client falls behind until it has caught up. When all together are over the limit,
    the one that has been behind for longest is cut off: the others go on.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Abortable, int] = {}  # in the order in which they fell behind
        self.total = 0

    def add(self, connection: Abortable, size: int) -> None:
        """So many bytes more wait for this client."""
        self._sizes[connection] = self._sizes.get(connection, 0) + size
        self.total += size
        while self.total > self._limit:
            longest = next(iter(self._sizes))
            self.forget(longest)
            longest.abort()

    def owes(self, connection: Abortable, size: int) -> None:
        """So many bytes wait for this client, of those before and new ones together."""
        if not size:
            self.forget(connection)
        elif size != self._sizes.get(connection, 0):
            self.add(connection, size - self._sizes.get(connection, 0))

    def forget(self, connection: Abortable) -> None:
        """Its client has caught up, or is gone."""
        self.total -= self._sizes.pop(connection, 0)
