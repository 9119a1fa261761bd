"""Keep the entries of one resource sorted by key, so that a change and a read of the whole are cheap.

The entries are in a list of immutable chunks. A change replaces one chunk. A reader joins the chunks of its range into
a tuple, which copies references only (5,000 of 100,000: 0.1 ms).
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter

from muster.cluster.store.values import Entry, Key

CHUNK = 64  # entries in a chunk: an update copies one chunk; a chunk splits in two at twice this size
_key = attrgetter("key")


class SortedEntries:
    """A sorted sequence of entries with unique keys.

    Invariants: no chunk is empty; `_lasts[i]` is the last key of `_chunks[i]`; keys strictly increase.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        sorted_entries = sorted(entries, key=_key)
        self._chunks = [tuple(sorted_entries[at : at + CHUNK]) for at in range(0, len(sorted_entries), CHUNK)]
        self._lasts = [chunk[-1].key for chunk in self._chunks]

    def put(self, entry: Entry) -> None:
        """Insert the entry, replacing an entry with the same key."""
        key = entry.key
        if not self._chunks:
            self._replace(0, (entry,))
            return
        at = min(bisect_left(self._lasts, key), len(self._chunks) - 1)
        chunk = self._chunks[at]
        i = bisect_left(chunk, key, key=_key)
        if i < len(chunk) and chunk[i].key == key:
            self._chunks[at] = (*chunk[:i], entry, *chunk[i + 1 :])
        else:
            self._replace(at, (*chunk[:i], entry, *chunk[i:]))

    def remove(self, key: Key) -> None:
        """Remove the entry with this key, which must exist."""
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        i = bisect_left(chunk, key, key=_key)
        assert chunk[i].key == key
        self._replace(at, chunk[:i] + chunk[i + 1 :])

    def _replace(self, at: int, chunk: tuple[Entry, ...]) -> None:
        half = len(chunk) // 2 if len(chunk) >= 2 * CHUNK else 0
        parts = [part for part in (chunk[:half], chunk[half:]) if part]
        self._chunks[at : at + 1] = parts
        self._lasts[at : at + 1] = [part[-1].key for part in parts]

    def of(self, resource: str, namespace: str) -> tuple[Entry, ...]:
        """Return the entries of one namespace, or all entries if the namespace is ""."""
        if not namespace:
            return tuple(chain.from_iterable(self._chunks))
        low, high = Key(resource, namespace, ""), Key(resource, namespace + "\0", "")
        first, last = bisect_left(self._lasts, low), bisect_left(self._lasts, high)
        entries = tuple(chain.from_iterable(self._chunks[first : last + 1]))
        return entries[bisect_left(entries, low, key=_key) : bisect_left(entries, high, key=_key)]
