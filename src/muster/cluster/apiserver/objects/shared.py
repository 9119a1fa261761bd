"""Keeps the objects that were decoded last, for all clients in this process."""

from typing import Any, TypeVar

from muster.api.kinds import Kind

T = TypeVar("T")

RECENT = 256  # objects that are kept at least; a writer and the followers of its kind read a body within moments
MOST_BYTES = 64 * 1024  # of a body: bigger objects are decoded for each client


class SharedObjects:
    """The objects of the newest bodies by their type. Nobody changes them."""

    def __init__(self) -> None:
        self._recent: dict[tuple[type[Any], bytes], Any] = {}
        self._older: dict[tuple[type[Any], bytes], Any] = {}

    def decode(self, kind: Kind[T], body: bytes) -> T:
        """Return the object of a body, decoded only once. A plain JSON object is decoded for each caller.

        Raises as `Kind.decode`.
        """
        if kind.type is dict or len(body) > MOST_BYTES:
            return kind.decode(body)
        # The hash of a body costs once: bytes keep theirs, and all readers have the bytes of the store.
        key = kind.type, body
        obj: T | None = self._recent.get(key) or self._older.get(key)
        if obj is None:
            obj = self._recent[key] = kind.decode(body)
            if len(self._recent) > RECENT:
                self._recent, self._older = {}, self._recent
        return obj
