"""Cache the typed objects of the newest bodies, for validation and for all clients in this process.

The cached objects lack managedFields, a quarter of an object, which validation and these clients do not read.
"""

from typing import Any, TypeVar

from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.cluster.store import Entry
from muster.runtime.objects import remove_managed_fields

T = TypeVar("T")

RECENT = 256  # the objects that stay cached at least; a writer and the followers of its kind read a body within moments
MOST_BYTES = 64 * 1024  # the largest body to share: bigger objects are decoded for each client
JOINED_BYTES = 1 << 20  # the least size of the cache of joined bodies: the bodies of a hundred pods


class SharedObjects:
    """The typed objects of the newest bodies, without managedFields.

    All readers share them and must not change them.
    """

    def __init__(self) -> None:
        # By type and `id` of the body, which the value keeps alive. All readers have the bytes of the store.
        self._recent: dict[tuple[type[Any], int], tuple[bytes, Any]] = {}
        self._older: dict[tuple[type[Any], int], tuple[bytes, Any]] = {}
        # Joined copies of packed bodies (`Entry.pack`), by `id` of the entry, which the value keeps alive.
        self._joined: dict[int, tuple[Entry, bytes]] = {}
        self._older_joined: dict[int, tuple[Entry, bytes]] = {}
        self._joined_bytes = 0

    def read_body(self, entry: Entry) -> bytes:
        """Return the body of an entry, joined at most once while it is cached.

        Further reads return the same `bytes` object, which is the key of the typed object.
        """
        body = self._find_body(entry)
        if body is None:
            body = entry.body
            self._joined[id(entry)] = entry, body
            self._joined_bytes += len(body)
            if self._joined_bytes > JOINED_BYTES:
                self._joined, self._older_joined, self._joined_bytes = {}, self._joined, 0
        return body

    def _find_body(self, entry: Entry) -> bytes | None:
        """Return the body of an entry; None for a body in pieces that is not in the cache of joined bodies."""
        if not entry.is_packed:
            return entry.body
        kept = self._joined.get(id(entry)) or self._older_joined.get(id(entry))
        return kept[1] if kept is not None else None

    def find_stored(self, kind: Kind[T], entry: Entry) -> T | None:
        """Return the typed object of a stored entry; None if it is not cached."""
        body = self._find_body(entry)
        return self.find(kind, body) if body is not None else None

    def decode(self, kind: Kind[T], body: bytes) -> T:
        """Return the object of a body, from the cache if possible. Raises the same errors as `Kind.decode`.

        Plain JSON objects and bodies above `MOST_BYTES` are decoded for each caller. For a view of a kind, the result
        is the whole object if that is cached.
        """
        if kind.type is dict:
            return kind.decode(body)
        if len(body) > MOST_BYTES:
            return _remove_managers(kind.decode(body))
        obj: T | None = self.find(kind, body)
        if obj is None and kind.whole is not None:
            obj = self._find(kind.whole, body)
        if obj is None:
            obj = _remove_managers(kind.decode(body))
            self._keep(kind.type, body, obj)
        return obj

    def find(self, kind: Kind[T], body: bytes) -> T | None:
        """Return the typed object of a body; None if it is not cached."""
        return self._find(kind.type, body)

    def _find(self, type_: type[Any], body: bytes) -> Any | None:
        key = type_, id(body)
        held = self._recent.get(key) or self._older.get(key)
        return held[1] if held is not None else None

    def add(self, kind: Kind[T], obj: T, body: bytes, version: str) -> None:
        """Cache the object of a new body, so that no client needs to decode the body.

        Do nothing for a plain JSON object and for a body above `MOST_BYTES`.

        obj: the object as it was validated, before the store gave it a version.
        version: the resource version in the body.
        """
        if kind.type is dict or len(body) > MOST_BYTES:
            return
        stored: Any = obj
        meta = replace(stored.metadata, resource_version=version, managed_fields=())
        self._keep(kind.type, body, replace(stored, metadata=meta))

    def _keep(self, type_: type[Any], body: bytes, obj: Any) -> None:
        self._recent[type_, id(body)] = body, obj
        if len(self._recent) > RECENT:
            self._recent, self._older = {}, self._recent


def _remove_managers(obj: T) -> T:
    """Return the object without managedFields. Its type may have fewer fields than the kind."""
    meta = getattr(obj, "metadata", None)
    return remove_managed_fields(obj) if getattr(meta, "managed_fields", ()) else obj
