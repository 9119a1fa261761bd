"""The versions of a custom resource: objects are stored in one version, and clients read and write all of them.

A read converts an object to the requested version, prunes it and fills in its defaults. The read skips all this if the
object was stored by the current definition in the requested version. `conversion` converts between versions.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from muster.cluster.apiserver.custom.conversion import Convert, rename
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.schema import Checker
from muster.cluster.store import Entry

_PIECE = 100  # objects
_PIECE_BYTES = 1 << 20

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class Stored(Struct):
    """The current rules of storage of a definition. Its resources share one instance, which each change updates.

    version: the apiVersion in which objects are stored.
    forms: the checker that prunes objects and fills in their defaults, by apiVersion.
    convert: converts objects between versions.
    since: the revision after which the current definition has stored all objects.
    """

    version: str = ""
    forms: Mapping[str, Checker] = field(default_factory=dict)
    convert: Convert = rename
    since: int = 0


class CustomVersion:
    """The storage of one version of a definition (the `Storage` of a `Resource`)."""

    def __init__(self, stored: Stored, api_version: str) -> None:
        self._stored = stored
        self._api_version = api_version

    async def load(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries with their bodies in this version.

        Raises `ApiError` if a webhook fails to convert them.
        """
        if all(self._is_current(entry) for entry in entries):
            return entries
        loaded: list[Entry] = []
        for piece in _split_entries(entries):
            if loaded:
                await asyncio.sleep(0)
            loaded += await self._load(piece)
        return loaded

    async def convert_to_stored(self, document: Document) -> Document:
        """Convert an object of this version to the stored version.

        Raises `ApiError` if a webhook fails to convert it.
        """
        if self._api_version == self._stored.version:
            return document
        converted = await self._stored.convert([document], self._stored.version)
        return self._convert_to_form(converted[0])

    async def convert(self, document: Document) -> Document:
        """Convert an object of another version to this version. Raises `ApiError` if a webhook fails to convert it."""
        return (await self._convert_all([document]))[0]

    async def _load(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        documents: list[Document] = [_decoder.decode(entry.body) for entry in entries]
        loaded = await self._convert_all([self._convert_to_form(document) for document in documents])
        return map(_replace_body, entries, loaded)

    def _is_current(self, entry: Entry) -> bool:
        return self._api_version == self._stored.version and entry.revision > self._stored.since

    def _convert_to_form(self, document: Document) -> Document:
        form = self._stored.forms.get(document["apiVersion"])
        formed: Document = document if form is None else form(document).value
        return formed

    async def _convert_all(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return all objects in this version, with one conversion for all objects of another version."""
        result = list(documents)
        others: dict[str, list[int]] = {}
        for index, document in enumerate(documents):
            if document["apiVersion"] != self._api_version:
                others.setdefault(document["apiVersion"], []).append(index)
        for indexes in others.values():
            converted = await self._stored.convert([documents[index] for index in indexes], self._api_version)
            for index, document in zip(indexes, converted, strict=True):
                result[index] = self._convert_to_form(document)
        return result


def _split_entries(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield the entries in parts of limited size.

    Other tasks run between two parts, and one call of a webhook converts at most one part.
    """
    first = size = 0
    for index, entry in enumerate(entries):
        size += entry.size
        if size >= _PIECE_BYTES or index - first + 1 == _PIECE:
            yield entries[first : index + 1]
            first, size = index + 1, 0
    if first < len(entries):
        yield entries[first:]


def _replace_body(entry: Entry, document: Document) -> Entry:
    body = _encoder.encode(document)
    return entry if body == entry.body else Entry(entry.key, entry.revision, body, entry.header)
