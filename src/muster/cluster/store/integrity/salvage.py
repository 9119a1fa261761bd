"""Decide which rows of a damaged store are intact, and which objects can be saved. Pure.

A row whose checksum matches is undamaged. The newest such row of each object counts, unless it records a deletion. A
compaction leaves the rows that it removed in unused pages, and in overwritten images. From these, only rows that no
compaction can have removed are used.
"""

from collections.abc import Callable, Iterable
from typing import cast

from msgspec import Struct

from muster.cluster.store.integrity.checksum import WRAP, of_meta, of_row
from muster.cluster.store.integrity.mark import Mark
from muster.cluster.store.integrity.pages import Pages, Row
from muster.cluster.store.journal import JournalRecord
from muster.cluster.store.values import Key

_COLUMNS = 8


class Findings(Struct, frozen=True):
    """The contents that are left of a damaged store.

    living: the newest intact row of each existing object.
    doubtful: the objects that have a newer but damaged row, so they are lost or outdated.
    missing: how many more objects the store had than `living`, by the mark; None without a mark.
    is_unchecked: whether there are rows from a release without checksums.
    is_complete: whether all acknowledged writes were found.
    newest: a revision that is at least as new as any that clients received, as far as the files show.
    """

    living: list[JournalRecord]
    doubtful: list[Key]
    missing: int | None
    is_unchecked: bool
    is_complete: bool
    newest: int


def salvage(pages: Pages, mark: Mark | None, is_readable: Callable[[Key, bytes], bool]) -> Findings:
    """Return the contents that are left of a damaged store, from every row in its pages.

    is_readable: returns whether a body can be decoded. Objects whose body cannot be decoded are doubtful, too.
    """
    meta = {row[0]: row[1] for row in pages.entries() if len(row) == 2}
    compacted, removed = meta.get("compacted"), meta.get("removed")
    has_meta = isinstance(compacted, int) and isinstance(removed, int)
    if not has_meta or of_meta(cast("int", compacted), cast("int", removed)) != meta.get("digest"):
        compacted = removed = None
    intact: dict[int, tuple[JournalRecord, int]] = {}
    broken: dict[Key, int] = {}
    for row in pages.rows():
        _sort_row(row, intact, broken)
    older: dict[int, tuple[JournalRecord, int]] = {}
    for row in pages.older_rows() if compacted is not None else ():
        _sort_row(row, older, {})
    intact = {at: row_and_digest for at, row_and_digest in older.items() if at > cast("int", compacted)} | intact
    newest: dict[Key, JournalRecord] = {}
    for _, (record, _) in sorted(intact.items()):
        newest[record.key] = record
    unreadable = {key for key, record in newest.items() if not record.deleted and not is_readable(key, record.body)}
    living = [record for key, record in newest.items() if not record.deleted and key not in unreadable]
    doubtful = {key for key, at in broken.items() if key not in newest or newest[key].revision < at} | unreadable
    is_complete = mark is not None and removed is not None and _has_right_total(intact, cast("int", removed), mark)
    revisions = [mark.revision if mark else 0, *intact, *broken.values(), cast("int", compacted or 0)]
    return Findings(
        sorted(living),
        sorted(doubtful),
        None if mark is None else max(mark.objects - len(living), 0),
        not intact and any(len(row) == _COLUMNS - 1 for row in pages.rows()),
        is_complete and not doubtful,
        max(revisions),
    )


def _sort_row(row: Row, intact: dict[int, tuple[JournalRecord, int]], broken: dict[Key, int]) -> None:
    """Add a row to `intact` if it is intact, or else to `broken`; skip rows that no store has written."""
    if len(row) != _COLUMNS:
        return
    revision, resource, namespace, name, deleted, previous, digest, body = row
    if not (isinstance(revision, int) and 0 < revision < 1 << 62):
        return
    if not (isinstance(resource, str) and isinstance(namespace, str) and isinstance(name, str)):
        return
    key = Key(resource, namespace, name)
    try:
        is_right = digest == of_row(revision, *key, cast("bool", deleted), cast("int", previous), cast("bytes", body))
    except (TypeError, ValueError):
        is_right = False
    if is_right:
        record = JournalRecord(revision, key, bool(deleted), cast("int", previous), cast("bytes", body))
        intact[revision] = record, cast("int", digest)
    else:
        broken[key] = max(revision, broken.get(key, 0))


def _has_right_total(intact: dict[int, tuple[JournalRecord, int]], removed: int, mark: Mark) -> bool:
    total = removed + sum(digest for at, (_, digest) in intact.items() if at <= mark.revision)
    return total % WRAP == mark.total


def list_living(records: Iterable[JournalRecord]) -> list[JournalRecord]:
    """Return the last state of each object that still exists, sorted by key.

    records: in the order of their revisions.
    """
    newest = {record.key: record for record in records}
    return sorted(record for record in newest.values() if not record.deleted)
