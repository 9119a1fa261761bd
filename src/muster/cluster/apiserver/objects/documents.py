"""Documents over the store: decoded when they are to be changed, encoded with the revision that the change gets.

Between `latest` and the write that was decided on it there must be no await: that is what makes it atomic.
"""

import sys
from asyncio import Future
from collections.abc import Sequence

import msgspec

from muster.api.status import bad_request, too_large
from muster.cluster.apiserver.decode import MAX_OBJECT_BYTES, ROOM_FOR_STATUS, Document
from muster.cluster.apiserver.restraint import end_work
from muster.cluster.store import Delete, Entry, Key, Put, Store

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class Documents:
    """Reads and writes objects as documents."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def latest(self, key: Key) -> Entry | None:
        """The object as of the newest write, durable or not."""
        return self.store.latest(key)

    async def settled(self, key: Key) -> None:
        """Wait until `latest` is durable: before an answer that says how it is, and is no write's own.

        Raises `ApiError` (the store's) if it never comes to be.
        """
        end_work()
        await self.store.settled(key)

    async def put(
        self,
        key: Key,
        document: Document,
        *,
        dry_run: bool = False,
        beside: Sequence[Put] = (),
        limit: int = MAX_OBJECT_BYTES + ROOM_FOR_STATUS,
    ) -> bytes:
        """Store an object and return it as stored, once it is durable. Raises `ApiError` (413, and the store's).

        beside: what is written with it, or not at all. limit: how many bytes it may have.
        """
        encoding = _Encoding(document, limit)
        if dry_run:
            return encoding.unchanged()
        written = self.store.write(Put(key, encoding), *beside)
        end_work()
        return _body(await written)

    async def remove(self, key: Key, document: Document, *, dry_run: bool = False, beside: Sequence[Put] = ()) -> bytes:
        """Remove an object; `document` is its last state. Raises `ApiError`."""
        if dry_run:
            return _Encoding(document).unchanged()
        written = self.store.write(Delete(key, _Encoding(document)), *beside)
        end_work()
        return _body(await written)

    def removal(self, key: Key, document: Document) -> "Future[list[Entry]]":
        """Begin to remove an object."""
        return self.store.write(Delete(key, _Encoding(document)))

    def change(self, key: Key, document: Document) -> "Future[list[Entry]]":
        """Begin to store an object."""
        return self.store.write(Put(key, _Encoding(document)))


def written(key: Key, document: Document) -> Put:
    """The write of an object that goes beside another one."""
    return Put(key, _Encoding(document))


def decode_entry(entry: Entry) -> Document:
    """A stored object as a document of its own."""
    document: Document = _decoder.decode(entry.body)
    return document


def _body(entries: list[Entry]) -> bytes:
    return entries[0].body


class _Encoding:
    """Encodes a document with the revision that it gets."""

    __slots__ = ("_document", "_limit")

    def __init__(self, document: Document, limit: int = sys.maxsize) -> None:
        self._document = document
        self._limit = limit

    def __call__(self, revision: int) -> bytes:
        self._document["metadata"]["resourceVersion"] = str(revision)
        return self.unchanged()

    def unchanged(self) -> bytes:
        """With the version that it has; without any if that is empty."""
        meta = self._document["metadata"]
        if not meta.get("resourceVersion"):
            meta.pop("resourceVersion", None)
        try:
            body = _encoder.encode(self._document)
        except (OverflowError, ValueError, msgspec.MsgspecError) as error:
            raise bad_request(f"the object cannot be written as JSON: {error}") from None
        if len(body) > self._limit:
            raise too_large(f"Request entity too large: limit is {self._limit}")
        return body
