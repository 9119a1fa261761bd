"""Record creates, updates and patches in `metadata.managedFields`.

`update_managers` compares the stored object with the new one, and makes the writer the manager of the changed fields.
`apply` does server-side apply, and shares the helpers of this module.
"""

from collections.abc import Iterable
from typing import Any

from muster.api.patch.json import is_equal
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.compare import Changes, compare
from muster.cluster.apiserver.fields.managers import (
    UPDATE,
    Entry,
    Writer,
    cap_updaters,
    entries_of,
    identity_of,
    is_same_entry,
    read_entries,
    remove_entries,
    set_entries,
    sort_entries,
)
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import SELF, FieldSet, subtract_set, unite_sets

NOTHING: FieldSet = {}

# The metadata that the server sets itself. They have no manager.
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


def update_managers(
    live: Document | None,
    new: Document,
    writer: Writer,
    now: str,
    schema: FieldSchema,
    sent_entries: Any,
    ignored: FieldSet = NOTHING,
) -> None:
    """Set `metadata.managedFields` of an object before it is written, in place.

    A stored object without entries gets none until a client applies to it or sends entries.

    live: the stored object; None for a create.
    sent_entries: the entries that the client sent, if any. `[{}]` drops all entries. Malformed or empty entries are
        ignored, and so are all entries in a write of a subresource.
    now: the current time as RFC 3339, in UTC and whole seconds.
    ignored: fields that get no manager, because this kind of write never changes them (`{"f:status": {}}`).
    """
    entries = _read_entries(live, None if writer.subresource else sent_entries)
    if entries or live is None:
        changes = compare(schema.empty if live is None else live, new, schema)
        entries = record_update(entries, remove_ignored(changes, ignored), writer, now)
    set_entries(new, entries)


def is_same_but_times(old: Document, new: Document) -> bool:
    """Return whether two versions of an object are equal apart from the times of their managers' entries."""
    before, after = remove_entries(old), remove_entries(new)
    if before != after or not is_equal(before, after):  # Python's == holds for 1 and True, `is_equal` does not
        return False
    entries, others = entries_of(old), entries_of(new)
    return len(entries) == len(others) and all(map(is_same_entry, entries, others))


def _read_entries(live: Document | None, sent_entries: Any) -> list[Entry]:
    """Return the `managedFields` before an update: the client's entries if they are valid, else the stored ones."""
    stored = entries_of(live)
    if not sent_entries or sent_entries == stored:
        return stored
    if sent_entries == [{}]:  # the form in which a client asks to drop all entries
        return []
    return read_entries(sent_entries) or stored


def remove_ignored(changes: Changes, ignored: FieldSet) -> Changes:
    """Return the changes without the ignored fields."""
    if not ignored:
        return changes
    return Changes(subtract_set(changes.gained, ignored) or {}, subtract_set(changes.removed, ignored) or {})


def remove_unmanaged(fields: FieldSet) -> FieldSet:
    """Return a set of fields without the fields that the server sets itself."""
    return subtract_set(fields, _SERVERS) or {}


def remove_lost_fields(entries: Iterable[Entry], lost: FieldSet) -> list[Entry]:
    """Return the `managedFields` entries without the lost fields, and without the entries that own no other field."""
    result = []
    for entry in entries:
        fields = entry["fieldsV1"]
        left = subtract_set(fields, lost)
        if left:
            result.append(entry if left is fields else entry | {"fieldsV1": left})
    return result


def record_update(entries: list[Entry], changes: Changes, writer: Writer, now: str) -> list[Entry]:
    """Return the `managedFields` entries after an update: only the writer owns the fields that it changed.

    Return `entries` itself if no field that can have a manager changed.
    """
    own = remove_unmanaged(changes.gained)
    if not entries:
        return [writer.entry(UPDATE, now, own)] if own else entries
    left = remove_lost_fields(entries, changes.lost)
    if not own:
        same = len(left) == len(entries) and all(new is old for new, old in zip(left, entries, strict=True))
        return entries if same else sort_entries(left)
    identity = writer.identity(UPDATE)
    others, mine = [], None
    for entry in left:
        if identity_of(entry) == identity:
            mine = entry["fieldsV1"]
        else:
            others.append(entry)
    others.append(writer.entry(UPDATE, now, own if mine is None else unite_sets(mine, own)))
    return sort_entries(cap_updaters(others))
