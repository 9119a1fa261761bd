"""Server-side apply: one manager's configuration becomes part of an object."""

from collections.abc import Iterable
from functools import reduce

from muster.api.status import bad_request
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields import lastapplied
from muster.cluster.apiserver.fields.compare import compare
from muster.cluster.apiserver.fields.config import applied_fields
from muster.cluster.apiserver.fields.conflicts import Conflict, conflict_error
from muster.cluster.apiserver.fields.managers import (
    APPLY,
    Entry,
    Writer,
    entries_of,
    identity_of,
    in_order,
    same_entry,
    set_entries,
    without_entries,
)
from muster.cluster.apiserver.fields.merge import merge, pruned
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet, paths, union, within, without
from muster.cluster.apiserver.fields.settle import settled
from muster.cluster.apiserver.fields.update import NOTHING, left_to, noted, relevant, unmanaged

# Of every object: giving up all that is in it does not take it away.
_METADATA: FieldSet = {"f:metadata": {}}
BEFORE_FIRST_APPLY = "before-first-apply"  # manages what was in an object of which nothing was noted until then


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
    """The object after the configuration was applied, `metadata.managedFields` included; changes neither operand.

    live: the stored object; None if there is none yet.
    config: what the manager wants, in the version `writer.api_version`.
    now: RFC 3339, whole seconds, UTC.
    force: take fields from managers that want them otherwise.
    ignored: fields that this kind of write does not change, whatever was sent.

    An apply that changes nothing returns an object that equals the stored one, times included. Raises `ApiError`: 409
    for conflicts, 400 for a configuration that cannot be applied.
    """
    _require_applicable(config, writer)
    wanted = without(applied_fields(config, schema), ignored) or {}
    base = without_entries(live or {})
    stored = _entries(live, base, writer, now, schema, ignored)
    previous = next((entry for entry in stored if identity_of(entry) == writer.identity(APPLY)), None)
    others = [entry for entry in stored if entry is not previous]
    own = writer.entry(APPLY, now, unmanaged(wanted))

    result = merge(base, config, schema)
    if previous is not None and previous["fieldsV1"] != own["fieldsV1"]:
        result = pruned(result, previous["fieldsV1"], _owned(wanted, others), schema)
    changes = relevant(compare(base, result, schema), ignored)
    if not force:
        _require_no_conflicts(others, changes.gained, base, writer, schema)
    if previous is not None and base == result and same_entry(previous, own):
        own = previous
    entries = in_order([*left_to(others, changes.lost), *([own] if own["fieldsV1"] else [])])
    result["metadata"] = dict(result.get("metadata") or {})
    lastapplied.sync(result, config, writer)
    set_entries(result, entries_of(live) if entries == entries_of(live) else entries)
    return result


def _require_applicable(config: Document, writer: Writer) -> None:
    version = config.get("apiVersion", "")
    if version != writer.api_version:
        message = "Incorrect version specified in apply patch. Specified patch version: "
        raise bad_request(f"{message}{str(version)[:100]}, expected: {writer.api_version}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _entries(
    live: Document | None, base: Document, writer: Writer, now: str, schema: FieldSchema, ignored: FieldSet
) -> list[Entry]:
    """The entries to start from; of an object that has none, that all in it was there before."""
    stored = [_settled(entry, schema) for entry in entries_of(live)]
    if stored or live is None:
        return stored
    changes = relevant(compare(schema.empty, base, schema), ignored)
    return noted([], changes, Writer(BEFORE_FIRST_APPLY, writer.api_version, writer.subresource), now)


def _settled(entry: Entry, schema: FieldSchema) -> Entry:
    fields = settled(entry["fieldsV1"], schema)
    return entry if fields is entry["fieldsV1"] else entry | {"fieldsV1": fields}


def _owned(wanted: FieldSet, others: Iterable[Entry]) -> FieldSet:
    """What any manager owns once the configuration is applied."""
    return reduce(union, (entry["fieldsV1"] for entry in others if entry["fieldsV1"]), union(wanted, _METADATA))


def _require_no_conflicts(
    others: Iterable[Entry], gained: FieldSet, live: Document, writer: Writer, schema: FieldSchema
) -> None:
    """Raise `ApiError` (409) if fields would be taken from others that want them otherwise."""
    if not gained:
        return
    taken = ((entry, within(entry["fieldsV1"], gained)) for entry in others if entry["fieldsV1"])
    conflicts = [Conflict(identity_of(entry), tuple(paths(fields))) for entry, fields in taken if fields]
    conflicts = lastapplied.not_allowed(conflicts, live, writer, schema) if conflicts else []
    if conflicts:
        raise conflict_error(conflicts)
