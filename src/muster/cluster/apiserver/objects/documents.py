"""Documents over the store: `Documents` writes decoded objects, and encodes them with the revision of the write.

A caller reads an object with `latest`, decides, and writes. The change is atomic only if no `await` separates the read
from the write. Each write sets `metadata.resourceVersion` in the document that the caller passes.
"""

import sys
from asyncio import Future
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from muster.api.core import EVENT
from muster.api.groups.coordination import LEASE
from muster.api.kinds import Kind
from muster.api.status import bad_request, too_large
from muster.cluster.apiserver.decode import MAX_OBJECT_BYTES, ROOM_FOR_STATUS, Document
from muster.cluster.apiserver.objects.shared import SharedObjects
from muster.cluster.apiserver.throttle import end_work
from muster.cluster.store import Delete, Entry, Key, Put, Store

# Kinds whose writes no client waits for: they share a commit with writes that a client waits for.
_UNHURRIED = frozenset({EVENT.resource, LEASE.resource})

# An object and its kind.
Typed: TypeAlias = tuple[Kind[Any], Any]

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class Documents:
    """The reader and writer of a store's objects as documents: decoded JSON, without types."""

    def __init__(self, store: Store, shared: SharedObjects | None = None) -> None:
        self.store = store
        self._shared = shared or SharedObjects()

    def latest(self, key: Key) -> Entry | None:
        """Return the newest state of an object, durable or not; None if it does not exist."""
        return self.store.latest(key)

    def typed(self, kind: Kind[Any], entry: Entry) -> Any:
        """Return an object as an instance of its kind's type; None unless the instance is still cached."""
        return self._shared.find_stored(kind, entry)

    async def wait_until_durable(self, key: Key) -> None:
        """Wait until the result of `latest` is durable. Raises `ApiError` if the store rolls the write back.

        A request that writes nothing and returns the result of `latest` must call this before it responds. The call
        also ends the work of the request (`throttle.end_work`).
        """
        end_work()
        await self.store.wait_until_durable(key)

    async def put(
        self,
        key: Key,
        document: Document,
        *,
        dry_run: bool = False,
        beside: Sequence[Put] = (),
        limit: int = MAX_OBJECT_BYTES + ROOM_FOR_STATUS,
        typed: Typed | None = None,
    ) -> bytes:
        """Create or replace an object, wait until the write is durable, and return the stored object as JSON.

        Raises `ApiError`: 413 if the object is too large, 400 if it cannot be written as JSON, or the store's refusal.

        dry_run: store nothing, and return the JSON with the document's current resource version.
        beside: writes of other objects, which the store commits with this write or not at all.
        limit: the maximum size of the object in bytes of JSON.
        typed: the document as an instance of its kind's type, without the new resource version. Readers in this process
        then get that instance, and need not decode the JSON.
        """
        encoding = _Encoding(document, limit)
        if dry_run:
            return encoding.encode_unchanged()
        written = self.store.write(Put(key, encoding), *beside, may_wait=key.resource in _UNHURRIED)
        self._share_typed(typed, encoding)
        end_work()
        return _get_body(await written)

    async def remove(
        self,
        key: Key,
        document: Document,
        *,
        dry_run: bool = False,
        beside: Sequence[Put] = (),
        typed: Typed | None = None,
    ) -> bytes:
        """Remove an object, wait until the removal is durable, and return its last state as JSON.

        Raises `ApiError` if the store refuses the removal.

        document: the last state of the object.
        dry_run, beside: as for `put`.
        typed: the last state as an instance of its kind's type, as for `put`.
        """
        encoding = _Encoding(document)
        if dry_run:
            return encoding.encode_unchanged()
        written = self.store.write(Delete(key, encoding), *beside)
        self._share_typed(typed, encoding)
        end_work()
        return _get_body(await written)

    def _share_typed(self, typed: Typed | None, encoding: "_Encoding") -> None:
        """Cache the typed object, if there is one, of a write that the store accepted, for readers in this process."""
        if typed is not None and encoding.body:
            self._shared.add(*typed, encoding.body, encoding.version)

    def start_removal(self, key: Key, document: Document) -> "Future[list[Entry]]":
        """Start to remove an object; return a future of its last state, which completes when the removal is durable."""
        return self.store.write(Delete(key, _Encoding(document)))


def make_put(key: Key, document: Document) -> Put:
    """Return the write of an object, for the parameter `beside` of another write."""
    return Put(key, _Encoding(document))


def decode_entry(entry: Entry) -> Document:
    """Decode a stored object to a new document, which the caller may change."""
    document: Document = _decoder.decode(entry.body)
    return document


def make_typed_document(kind: Kind[Any], document: Document) -> Typed | None:
    """Return the kind, and the document as an instance of the kind's type.

    Return None for a kind without a type, and if a member has a wrong type. Converting the document costs less than
    decoding its text later.
    """
    if kind.type is dict:
        return None
    try:
        return kind, msgspec.convert(document, kind.type)
    except msgspec.ValidationError:
        return None


def _get_body(entries: list[Entry]) -> bytes:
    return entries[0].body


class _Encoding:
    """The encoder of a document, which the store calls with the revision of the write.

    body: the result of that call; b"" before the call.
    """

    __slots__ = ("_document", "_limit", "body")

    def __init__(self, document: Document, limit: int = sys.maxsize) -> None:
        self._document = document
        self._limit = limit
        self.body = b""

    def __call__(self, revision: int) -> bytes:
        """Set the resource version in the document, and encode it. Raises `ApiError` as `encode_unchanged` does."""
        self._document["metadata"]["resourceVersion"] = str(revision)
        self.body = self.encode_unchanged()
        return self.body

    @property
    def version(self) -> str:
        """The resource version in the body."""
        version: str = self._document["metadata"]["resourceVersion"]
        return version

    def encode_unchanged(self) -> bytes:
        """Encode the document with its current resource version. Remove an empty version from the document first.

        Raises `ApiError`: 400 if the document cannot be written as JSON, 413 if it is too large.
        """
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
