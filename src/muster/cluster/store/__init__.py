"""The store of the embedded cluster's objects: durable, revisioned, watchable.

This package does not export `sqlite`, the journal on disk, so that a cluster for a single command starts sooner.
"""

from muster.cluster.store.changes import Watch
from muster.cluster.store.errors import (
    Closed,
    Compacted,
    DataDirectoryError,
    StorageFailed,
    StorageFull,
    StoreClosed,
    WriteRefused,
)
from muster.cluster.store.journal import Journal, MemoryJournal
from muster.cluster.store.store import Store
from muster.cluster.store.upkeep import keep_compacted
from muster.cluster.store.values import Change, Delete, Entry, Header, HeaderOf, Key, Put, Snapshot

__all__ = [
    "Change",
    "Closed",
    "Compacted",
    "DataDirectoryError",
    "Delete",
    "Entry",
    "Header",
    "HeaderOf",
    "Journal",
    "Key",
    "MemoryJournal",
    "Put",
    "Snapshot",
    "StorageFailed",
    "StorageFull",
    "Store",
    "StoreClosed",
    "Watch",
    "WriteRefused",
    "keep_compacted",
]
