"""Compute the checksums of rows. Pure.

CRC-32 detects every flipped bit of a row, and every burst of up to 32 bits. A stronger checksum would make a write
several times slower.
"""

from collections.abc import Sequence
from zlib import crc32

from muster.cluster.store.journal import JournalRecord

WRAP = 1 << 60  # sums of checksums are computed modulo this, so that they fit into a column


def of_row(
    revision: int, resource: str, namespace: str, name: str, deleted: bool, previous: int | None, body: bytes
) -> int:
    """Return the checksum of a row of the log.

    A damaged row may have values of other types, which lead to another checksum or a `TypeError`.

    previous: the revision of the object's previous row; None for its first row.
    """
    return crc32(body, crc32(f"{revision} {previous} {deleted:d} {resource}\0{namespace}\0{name}\0".encode()))


def of_records(records: Sequence[JournalRecord]) -> list[int]:
    """Return the checksums of the rows for these records, in order."""
    return [of_row(revision, *key, deleted, previous, body) for revision, key, deleted, previous, body in records]


def of_meta(compacted: int, removed: int) -> int:
    """Return the checksum of the values in the table `meta`."""
    return crc32(f"{compacted} {removed}".encode())
