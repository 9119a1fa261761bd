"""The format of a response: `form_of` reads it from the `Accept` header, and a `Presentation` encodes objects in it.

The formats are the object itself, a row of a table, and only the metadata. All are JSON, chosen by a header like
`application/json;as=Table;v=v1;g=meta.k8s.io`. Clients that prefer protobuf accept JSON, too. `tables` makes the
columns of tables.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from muster.api.meta import ListMeta
from muster.api.status import not_acceptable
from muster.cluster.apiserver import tables
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.static import parse_accept
from muster.cluster.store import Entry

Form = Literal["object", "table", "metadata"]
# An encoded list: whole, or in pieces if it is long.
Listed: TypeAlias = bytes | AsyncIterator[bytes]

_JSON_RANGES = ("application/json", "application/*", "*/*")
_FORMS: dict[str | None, Form] = {
    None: "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
# A longer list is never whole in memory: twenty of them together would need twenty times the size of the store.
LONG_BYTES = 16 << 20
# A big response is made in pieces of this many objects or bytes, so that other requests can run in between.
_PIECE = 100
_PIECE_BYTES = 1 << 20
_TAIL = b"]}"

_encode = msgspec.json.encode
_decoder = msgspec.json.Decoder()


@lru_cache(maxsize=256)
def form_of(accept: str) -> Form:
    """Return the format that an Accept header asks for.

    Raises `ApiError` (406) if the server supports none of the types.
    """
    for media_type, parameters in parse_accept(accept):
        form = _FORMS.get(parameters.get("as"))
        if media_type not in _JSON_RANGES or form is None:
            continue
        if form == "object" or (parameters.get("g") == "meta.k8s.io" and parameters.get("v") == "v1"):
            return form
    raise not_acceptable()


class Presentation:
    """The encoder of one resource's objects in one form, at one time."""

    def __init__(self, resource: Resource, view: View, form: Form, include: str, now: datetime) -> None:
        """Make an encoder. Raises `ApiError` (400) for an unknown `include` of a table.

        include: which part of its object each row of a table contains (the query's `includeObject`).
        now: the current time, by which tables compute ages.
        """
        if form == "table":
            tables.require_include(include)
        self.resource = resource
        self.plain = form == "object" and view.show is None  # the form is the stored bytes
        self._view = view
        self._form = form
        self._include = include
        self._now = now

    def at(self, now: datetime) -> "Presentation":
        """Return the same encoder for another current time, by which tables compute ages."""
        later = copy.copy(self)
        later._now = now  # noqa: SLF001  (a copy of this object)
        return later

    def one(self, body: bytes, *, columns: bool = True) -> bytes:
        """Return one encoded object; for the format table, a table with one row.

        columns: whether a table contains its column definitions.
        """
        if self.plain:
            return body
        item = self._encode_item(body)
        if self._form != "table":
            return item
        version = msgspec.json.decode(body, type=_Versioned).metadata.resource_version
        return self._encode_table(item, ListMeta(resource_version=version), columns=columns)

    async def list(self, entries: Sequence[Entry], meta: ListMeta) -> Listed:
        """Return an encoded list. A long list comes in pieces, each made after the previous piece has been sent."""
        if sum(entry.size for entry in entries) > LONG_BYTES:
            return self._yield_pieces(entries, meta)
        if self.plain:
            return b"".join((self._encode_head(meta), *separate_bodies(entries), _TAIL))
        return b"".join([piece async for piece in self._yield_pieces(entries, meta)])

    def join_list(self, items: bytes, meta: ListMeta) -> bytes:
        """Return a list of items that are already encoded in this format and joined."""
        return b"".join((self._encode_head(meta), items, _TAIL))

    async def _yield_pieces(self, entries: Sequence[Entry], meta: ListMeta) -> AsyncIterator[bytes]:
        yield self._encode_head(meta)
        for number, some in enumerate(_split_entries(entries)):
            if number:
                await asyncio.sleep(0)
                yield b","
            if self.plain:
                yield b"".join(separate_bodies(some))
            else:
                yield b",".join([self._encode_item(entry.body) for entry in some])
        yield _TAIL

    def _encode_head(self, meta: ListMeta) -> bytes:
        """Return the bytes that precede the items of a list."""
        if self._form == "table":
            return self._encode_table_head(meta, columns=True)
        kind = self.resource.kind
        encoded = _encode(meta)
        if self._form == "metadata":
            head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":%b,"items":['
            return head % (encoded,)
        head = b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":['
        return head % (self.resource.kind_of_lists.encode(), kind.api_version.encode(), encoded)

    def _encode_table(self, rows: bytes, meta: ListMeta, *, columns: bool) -> bytes:
        return b"".join((self._encode_table_head(meta, columns=columns), rows, _TAIL))

    def _encode_table_head(self, meta: ListMeta, *, columns: bool) -> bytes:
        head = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%b,"columnDefinitions":%b,"rows":['
        return head % (
            _encode(meta),
            tables.encode_columns(self._view.kind, self._view.printer) if columns else b"null",
        )

    def empty(self, meta: dict[str, Any]) -> bytes:
        """Return the encoded object of a bookmark: only metadata, with the kind of this format's objects."""
        if self._form != "object":
            partial = _encode({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta})
            if self._form == "metadata":
                return partial
            version = ListMeta(resource_version=meta["resourceVersion"])
            return self._encode_table(b'{"cells":[],"object":%b}' % partial, version, columns=False)
        kind = self.resource.kind
        return _encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta})

    def _encode_item(self, body: bytes) -> bytes:
        if self._form == "metadata":
            return tables.make_partial(body)
        shown = body if self._view.show is None else _encode(self._view.show(_decoder.decode(body)))
        if self._form != "table":
            return shown
        return tables.encode_row(self._view.kind, shown, self._now, self._include, self._view.printer)


def separate_bodies(entries: Sequence[Entry]) -> Sequence[bytes]:
    """Return the fragments of the bodies, with commas between the bodies.

    The copies of a long list are most of its cost. So the caller joins the fragments only once.
    """
    fragments: list[bytes] = []
    for entry in entries:
        fragments += entry.fragments
        fragments.append(b",")
    return fragments[:-1]


def _split_entries(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    first = size = 0
    for index, entry in enumerate(entries):
        if index - first == _PIECE or (size and size + entry.size > _PIECE_BYTES):
            yield entries[first:index]
            first, size = index, 0
        size += entry.size
    if entries:
        yield entries[first:]


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Version
