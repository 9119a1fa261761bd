"""Between objects as they are stored and as a resource has them.

Only custom resources make a difference: they may be stored in another version, or under an older schema.
"""

from collections.abc import Sequence

import msgspec

from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.store import Change, Entry


async def loaded(resource: Resource, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries with bodies as the resource has them; those given, if that is how they are stored.

    Raises `ApiError` if a webhook fails to convert them.
    """
    return entries if resource.storage is None else await resource.storage.load(entries)


async def loaded_entry(resource: Resource, entry: Entry) -> Entry:
    """One entry, as `loaded` has it."""
    return entry if resource.storage is None else (await resource.storage.load((entry,)))[0]


async def loaded_changes(resource: Resource, changes: Sequence[Change]) -> Sequence[Change]:
    """Changes of such entries. Raises `ApiError`."""
    if resource.storage is None:
        return changes
    after = await resource.storage.load([change.entry for change in changes])
    replaced = [change.previous for change in changes if change.previous is not None]
    before = iter(await resource.storage.load(replaced))
    return [
        _change(change, entry, next(before) if change.previous is not None else None)
        for change, entry in zip(changes, after, strict=True)
    ]


async def saved_document(resource: Resource, document: Document) -> Document:
    """The object to store, from one as the resource has it. Raises `ApiError`."""
    return document if resource.storage is None else await resource.storage.save(document)


def written_body(document: Document, saved: Document, body: bytes) -> bytes:
    """What was written as the resource has it: the bytes as stored if it was stored so."""
    if saved is document:
        return body
    version = saved["metadata"].get("resourceVersion")
    meta = {name: value for name, value in document["metadata"].items() if name != "resourceVersion"}
    return msgspec.json.encode(document | {"metadata": meta | ({"resourceVersion": version} if version else {})})


def _change(change: Change, entry: Entry, previous: Entry | None) -> Change:
    """The very same change if its entries are."""
    if entry is change.entry and previous is change.previous:
        return change
    return Change(change.type, entry, previous)
