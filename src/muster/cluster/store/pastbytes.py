"""Count the bytes that only the history of changes keeps, so that its size can be limited."""

import asyncio
from collections import deque

from muster.cluster.store.values import Change

STEP_BYTES = 1 << 20  # the limits hold to within this much


def count_past_bytes(change: Change) -> int:
    """Count the bytes of bodies that only the history keeps because of a change.

    They are the replaced body, and a deleted object's last body. All other bodies belong to current objects, or are
    counted by the change that replaced them.
    """
    replaced = change.previous.size if change.previous is not None else 0
    return replaced + (change.entry.size if change.type == "DELETED" else 0)


class PastBytes:
    """The number of bytes in the store's changes that only the history of changes keeps (past bytes)."""

    def __init__(self, most: int) -> None:
        """Make an empty count. most: the number of bytes above which `exceeded` is set."""
        self.exceeded = asyncio.Event()
        self._most = most
        self._total = 0  # the size of all changes ever added
        self._forgotten = 0  # the part of the total that is no longer kept
        self._marks: deque[tuple[int, int]] = deque()  # a revision, and the total up to and with it

    @property
    def kept_bytes(self) -> int:
        """The past bytes in the kept changes; at most `STEP_BYTES` too many."""
        return self._total - self._forgotten

    def add(self, change: Change) -> None:
        """Count the newest change."""
        self._total += count_past_bytes(change)
        if self._total - (self._marks[-1][1] if self._marks else self._forgotten) >= STEP_BYTES:
            self._marks.append((change.revision, self._total))
            if self.kept_bytes > self._most:
                self.exceeded.set()

    def free_room(self) -> None:
        """Set `exceeded`, because the disk is full. Do nothing if a compaction would free next to nothing."""
        if self._marks:
            self.exceeded.set()

    def forget(self, revision: int) -> None:
        """Stop counting the changes up to this revision."""
        while self._marks and self._marks[0][0] <= revision:
            self._forgotten = self._marks.popleft()[1]
        if self.kept_bytes <= self._most:
            self.exceeded.clear()

    def find_revision(self, limit: int) -> int:
        """Return the oldest revision after which the changes have at most `limit` past bytes, to within `STEP_BYTES`.

        Return 0 if the sum of all kept changes is not above the limit.
        """
        if self.kept_bytes <= limit or not self._marks:
            return 0
        within = (revision for revision, total in self._marks if self._total - total <= limit)
        return next(within, self._marks[-1][0])
