"""What a create, an update or a patch says about who manages which fields."""

from collections.abc import Iterable
from typing import Any

from muster.api.patch.json import equal
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.compare import Changes, compare
from muster.cluster.apiserver.fields.managers import (
    UPDATE,
    Entry,
    Writer,
    capped,
    entries_of,
    identity_of,
    in_order,
    read_entries,
    same_entry,
    set_entries,
    without_entries,
)
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import SELF, FieldSet, union, without

NOTHING: FieldSet = {}

# What is the server's own, which has no manager.
_METADATA = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
)
_SERVERS: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {SELF: {}, **{f"f:{name}": {} for name in _METADATA}},
}


def note_update(
    live: Document | None,
    new: Document,
    writer: Writer,
    now: str,
    schema: FieldSchema,
    given: Any,
    ignored: FieldSet = NOTHING,
) -> None:
    """Set `metadata.managedFields` of an object that is about to be written, in place.

    live: the stored object; None for a create.
    given: the entries that the client sent, if it sent any. `[{}]` drops all; what is wrong or empty is passed over,
        and a subresource cannot set them.
    now: RFC 3339, whole seconds, UTC.
    ignored: fields that this kind of write does not change, whatever was sent (`{"f:status": {}}`).

    An object that is stored without entries stays so, until a client applies to it.
    """
    entries = _entries(live, None if writer.subresource else given)
    if entries or live is None:
        changes = compare(schema.empty if live is None else live, new, schema)
        entries = noted(entries, relevant(changes, ignored), writer, now)
    set_entries(new, entries)


def same_but_times(old: Document, new: Document) -> bool:
    """Whether two versions of an object differ in nothing, or only in when its managers last wrote."""
    before, after = without_entries(old), without_entries(new)
    if before != after or not equal(before, after):  # to Python, but not here, 1 is True
        return False
    entries, others = entries_of(old), entries_of(new)
    return len(entries) == len(others) and all(map(same_entry, entries, others))


def _entries(live: Document | None, given: Any) -> list[Entry]:
    """The entries to start from."""
    stored = entries_of(live)
    if not given or given == stored:
        return stored
    if given == [{}]:
        return []
    return read_entries(given) or stored


def relevant(changes: Changes, ignored: FieldSet) -> Changes:
    """The changes that count."""
    if not ignored:
        return changes
    return Changes(without(changes.gained, ignored) or {}, without(changes.removed, ignored) or {})


def unmanaged(changed: FieldSet) -> FieldSet:
    """A set of fields without those that are the server's own."""
    return without(changed, _SERVERS) or {}


def left_to(entries: Iterable[Entry], lost: FieldSet) -> list[Entry]:
    """The entries less the fields that their managers no longer own; those that own nothing any more are left out."""
    result = []
    for entry in entries:
        fields = entry["fieldsV1"]
        left = without(fields, lost)
        if left:
            result.append(entry if left is fields else entry | {"fieldsV1": left})
    return result


def noted(entries: list[Entry], changes: Changes, writer: Writer, now: str) -> list[Entry]:
    """The entries after an update: the writer owns what it changed, and no other manager does. The same list if nothing
    changed that is managed.
    """
    own = unmanaged(changes.gained)
    if not entries:
        return [writer.entry(UPDATE, now, own)] if own else entries
    left = left_to(entries, changes.lost)
    if not own:
        same = len(left) == len(entries) and all(new is old for new, old in zip(left, entries, strict=True))
        return entries if same else in_order(left)
    identity = writer.identity(UPDATE)
    others, mine = [], None
    for entry in left:
        if identity_of(entry) == identity:
            mine = entry["fieldsV1"]
        else:
            others.append(entry)
    others.append(writer.entry(UPDATE, now, own if mine is None else union(mine, own)))
    return in_order(capped(others))
