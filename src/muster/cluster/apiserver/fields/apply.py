"""Server-side apply: `apply` merges one manager's configuration into an object.

The module finds the fields that the configuration sets, refuses conflicts with other managers, and removes fields that
the manager no longer lists. `merge` merges values, and `update` handles the entries of other writes.
"""

from collections.abc import Iterable
from functools import reduce

from muster.api.status import bad_request
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields import lastapplied
from muster.cluster.apiserver.fields.compare import compare
from muster.cluster.apiserver.fields.config import find_applied_fields
from muster.cluster.apiserver.fields.conflicts import Conflict, make_conflict_error
from muster.cluster.apiserver.fields.managers import (
    APPLY,
    Entry,
    Writer,
    entries_of,
    identity_of,
    is_same_entry,
    remove_entries,
    set_entries,
    sort_entries,
)
from muster.cluster.apiserver.fields.merge import merge, prune_given_up
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet, intersect_sets, list_paths, subtract_set, unite_sets
from muster.cluster.apiserver.fields.settle import settle_fields
from muster.cluster.apiserver.fields.update import (
    NOTHING,
    record_update,
    remove_ignored,
    remove_lost_fields,
    remove_unmanaged,
)

# Every object keeps its metadata, even if no manager owns a field in it any more.
_METADATA: FieldSet = {"f:metadata": {}}
BEFORE_FIRST_APPLY = "before-first-apply"  # the manager of all fields that an object without entries already has


def apply(
    live: Document | None,
    config: Document,
    writer: Writer,
    now: str,
    schema: FieldSchema,
    *,
    force: bool,
    ignored: FieldSet = NOTHING,
) -> Document:
    """Return the object after the apply, with its `metadata.managedFields`. Neither operand changes.

    An apply that changes nothing returns an object that equals the stored one, including the times of its entries.
    Raises `ApiError`: 409 for conflicts, 400 for a configuration that cannot be applied.

    live: the stored object; None if there is none yet.
    config: the manager's configuration, in the version `writer.api_version`.
    now: the current time as RFC 3339, in UTC and whole seconds.
    force: whether to take fields from managers that set them to a different value.
    ignored: fields that get no manager and cause no conflict, because this kind of write never stores them. The caller
    removes their values.
    """
    _require_applicable(config, writer)
    wanted = subtract_set(find_applied_fields(config, schema), ignored) or {}
    base = remove_entries(live or {})
    stored = _read_entries(live, base, writer, now, schema, ignored)
    previous = next((entry for entry in stored if identity_of(entry) == writer.identity(APPLY)), None)
    others = [entry for entry in stored if entry is not previous]
    own = writer.entry(APPLY, now, remove_unmanaged(wanted))

    result = merge(base, config, schema)
    if previous is not None and previous["fieldsV1"] != own["fieldsV1"]:
        result = prune_given_up(result, previous["fieldsV1"], _find_owned_fields(wanted, others), schema)
    changes = remove_ignored(compare(base, result, schema), ignored)
    if not force:
        _require_no_conflicts(others, changes.gained, base, writer, schema)
    if previous is not None and base == result and is_same_entry(previous, own):
        own = previous
    entries = sort_entries([*remove_lost_fields(others, changes.lost), *([own] if own["fieldsV1"] else [])])
    result["metadata"] = dict(result.get("metadata") or {})
    lastapplied.update_annotation(result, config, writer)
    set_entries(result, entries_of(live) if entries == entries_of(live) else entries)
    return result


def _require_applicable(config: Document, writer: Writer) -> None:
    """Raise `ApiError` (400) if the configuration is in another version or has managed fields of its own."""
    version = config.get("apiVersion", "")
    if version != writer.api_version:
        message = "Incorrect version specified in apply patch. Specified patch version: "
        raise bad_request(f"{message}{str(version)[:100]}, expected: {writer.api_version}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _read_entries(
    live: Document | None, base: Document, writer: Writer, now: str, schema: FieldSchema, ignored: FieldSet
) -> list[Entry]:
    """Return the entries of `managedFields` before the apply.

    If a stored object has none, the manager `before-first-apply` owns all its fields.
    """
    stored = [_settle_entry(entry, schema) for entry in entries_of(live)]
    if stored or live is None:
        return stored
    changes = remove_ignored(compare(schema.empty, base, schema), ignored)
    return record_update([], changes, Writer(BEFORE_FIRST_APPLY, writer.api_version, writer.subresource), now)


def _settle_entry(entry: Entry, schema: FieldSchema) -> Entry:
    fields = settle_fields(entry["fieldsV1"], schema)
    return entry if fields is entry["fieldsV1"] else entry | {"fieldsV1": fields}


def _find_owned_fields(own: FieldSet, others: Iterable[Entry]) -> FieldSet:
    """Return the fields that at least one manager owns after the apply."""
    return reduce(unite_sets, (entry["fieldsV1"] for entry in others if entry["fieldsV1"]), unite_sets(own, _METADATA))


def _require_no_conflicts(
    others: Iterable[Entry], gained: FieldSet, live: Document, writer: Writer, schema: FieldSchema
) -> None:
    """Raise `ApiError` (409) if another manager owns a field whose value the apply changes.

    A field that kubectl applied client-side is no conflict for kubectl.

    gained: the fields whose value the apply changes.
    live: the object before the apply.
    """
    if not gained:
        return
    taken = ((entry, intersect_sets(entry["fieldsV1"], gained)) for entry in others if entry["fieldsV1"])
    conflicts = [Conflict(identity_of(entry), tuple(list_paths(fields))) for entry, fields in taken if fields]
    conflicts = lastapplied.find_reported_conflicts(conflicts, live, writer, schema) if conflicts else []
    if conflicts:
        raise make_conflict_error(conflicts)
