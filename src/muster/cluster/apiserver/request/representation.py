"""What a client accepts, and objects in that form: as they are, as rows of a table, or as their metadata alone.

All forms are JSON. A form is chosen by the `Accept` header (`application/json;as=Table;v=v1;g=meta.k8s.io`); clients
that would rather have protobuf say that they take JSON too.
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
from muster.cluster.apiserver.static import accepted

Form = Literal["object", "table", "metadata"]
# A list as it is answered: whole, or in pieces if it is long.
Listed: TypeAlias = bytes | AsyncIterator[bytes]

_JSON_RANGES = ("application/json", "application/*", "*/*")
_FORMS: dict[str | None, Form] = {
    None: "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
# Lists of more bytes than this are never whole in memory, or twenty at once were twenty times all that there is.
LONG_BYTES = 16 << 20
# Big answers are made in pieces of so many objects or bytes, so that others get a turn in between.
_PIECE = 100
_PIECE_BYTES = 1 << 20
_TAIL = b"]}"

_encode = msgspec.json.encode
_decoder = msgspec.json.Decoder()


@lru_cache(maxsize=256)
def form_of(accept: str) -> Form:
    """The form that an Accept header asks for. Raises `ApiError` (406) if it names none that we have."""
    for media_type, parameters in accepted(accept):
        form = _FORMS.get(parameters.get("as"))
        if media_type not in _JSON_RANGES or form is None:
            continue
        if form == "object" or (parameters.get("g") == "meta.k8s.io" and parameters.get("v") == "v1"):
            return form
    raise not_acceptable("only the following media types are accepted: application/json")


class Presentation:
    """Objects of one resource in one form."""

    def __init__(self, resource: Resource, view: View, form: Form, include: str, now: datetime) -> None:
        """`include` is what a table's rows carry of their objects. Raises `ApiError` (400) if it is no known word."""
        if form == "table":
            tables.require_include(include)
        self.resource = resource
        self.plain = form == "object" and view.show is None  # just the stored bytes
        self._view = view
        self._form = form
        self._include = include
        self._now = now

    def at(self, now: datetime) -> "Presentation":
        """The same at another time: the ages in tables go on."""
        later = copy.copy(self)
        later._now = now  # noqa: SLF001  (its own)
        return later

    def one(self, body: bytes, *, columns: bool = True) -> bytes:
        """An object by itself; in a table, with what its columns are."""
        if self.plain:
            return body
        item = self._item(body)
        if self._form != "table":
            return item
        version = msgspec.json.decode(body, type=_Versioned).metadata.resource_version
        return self._table(item, ListMeta(resource_version=version), columns=columns)

    async def list(self, bodies: Sequence[bytes], meta: ListMeta) -> Listed:
        """Objects as a list; in pieces if it is long: each is made when the one before has been sent."""
        if sum(map(len, bodies)) > LONG_BYTES:
            return self._pieces(bodies, meta)
        if self.plain:
            return self.joined(b",".join(bodies), meta)
        return b"".join([piece async for piece in self._pieces(bodies, meta)])

    def joined(self, items: bytes, meta: ListMeta) -> bytes:
        """A list of items that are in this form and joined already."""
        return b"".join((self._head(meta), items, _TAIL))

    async def _pieces(self, bodies: Sequence[bytes], meta: ListMeta) -> AsyncIterator[bytes]:
        yield self._head(meta)
        for number, some in enumerate(_parted(bodies)):
            if number:
                await asyncio.sleep(0)
                yield b","
            yield b",".join(some if self.plain else map(self._item, some))
        yield _TAIL

    def _head(self, meta: ListMeta) -> bytes:
        """What comes before the items."""
        if self._form == "table":
            return self._table_head(meta, columns=True)
        kind = self.resource.kind
        encoded = _encode(meta)
        if self._form == "metadata":
            head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":%b,"items":['
            return head % (encoded,)
        head = b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":['
        return head % (self.resource.kind_of_lists.encode(), kind.api_version.encode(), encoded)

    def _table(self, rows: bytes, meta: ListMeta, *, columns: bool) -> bytes:
        return b"".join((self._table_head(meta, columns=columns), rows, _TAIL))

    def _table_head(self, meta: ListMeta, *, columns: bool) -> bytes:
        head = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%b,"columnDefinitions":%b,"rows":['
        return head % (_encode(meta), tables.columns(self._view.kind, self._view.printer) if columns else b"null")

    def empty(self, meta: dict[str, Any]) -> bytes:
        """No object, only metadata, as it stands in a bookmark: of the kind that the client has been told of."""
        if self._form != "object":
            partial = _encode({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta})
            if self._form == "metadata":
                return partial
            version = ListMeta(resource_version=meta["resourceVersion"])
            return self._table(b'{"cells":[],"object":%b}' % partial, version, columns=False)
        kind = self.resource.kind
        return _encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta})

    def _item(self, body: bytes) -> bytes:
        if self._form == "metadata":
            return tables.partial(body)
        shown = body if self._view.show is None else _encode(self._view.show(_decoder.decode(body)))
        if self._form != "table":
            return shown
        return tables.row(self._view.kind, shown, self._now, self._include, self._view.printer)


def _parted(bodies: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    first = size = 0
    for index, body in enumerate(bodies):
        if index - first == _PIECE or (size and size + len(body) > _PIECE_BYTES):
            yield bodies[first:index]
            first, size = index, 0
        size += len(body)
    if bodies:
        yield bodies[first:]


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Version
