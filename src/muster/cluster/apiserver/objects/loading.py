"""Convert objects between their stored form and the form of a resource, which is its version and current schema.

Only custom resources need a conversion, because they may be stored in another version or by an older schema. The
`storage` of the resource converts them.
"""

from collections.abc import Sequence

import msgspec

from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.store import Change, Entry


async def load_entries(resource: Resource, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries with their bodies in the form of the resource; the same sequence if no entry needs conversion.

    Raises `ApiError` if a webhook fails to convert the objects.
    """
    return entries if resource.storage is None else await resource.storage.load(entries)


async def load_entry(resource: Resource, entry: Entry) -> Entry:
    """Return one entry with its body in the form of the resource; the entry itself if it needs no conversion.

    Raises `ApiError` if a webhook fails to convert the object.
    """
    return entry if resource.storage is None else (await resource.storage.load((entry,)))[0]


async def load_changes(resource: Resource, changes: Sequence[Change]) -> Sequence[Change]:
    """Return changes with all bodies in the form of the resource, also the bodies before the changes.

    Raises `ApiError` if a webhook fails to convert the objects.
    """
    if resource.storage is None:
        return changes
    after = await resource.storage.load([change.entry for change in changes])
    replaced = [change.previous for change in changes if change.previous is not None]
    before = iter(await resource.storage.load(replaced))
    return [
        _make_change(change, entry, next(before) if change.previous is not None else None)
        for change, entry in zip(changes, after, strict=True)
    ]


async def make_saved_document(resource: Resource, document: Document) -> Document:
    """Return an object of a resource in the stored form; the document itself if it needs no conversion.

    Raises `ApiError` if a webhook fails to convert the object.
    """
    return document if resource.storage is None else await resource.storage.convert_to_stored(document)


def make_written_body(document: Document, saved: Document, body: bytes) -> bytes:
    """Return the body of a written object in the form of the resource, with its new resource version.

    document: the object in the form of the resource.
    saved: the object in the stored form. If it is the document itself, the result is the stored body.
    body: the stored body.
    """
    if saved is document:
        return body
    version = saved["metadata"].get("resourceVersion")
    meta = {name: value for name, value in document["metadata"].items() if name != "resourceVersion"}
    return msgspec.json.encode(document | {"metadata": meta | ({"resourceVersion": version} if version else {})})


def _make_change(change: Change, entry: Entry, previous: Entry | None) -> Change:
    """Return a change with these entries; the change itself if it has them already."""
    if entry is change.entry and previous is change.previous:
        return change
    return Change(change.type, entry, previous)
