"""A process that writes to a durable store until it is killed, and tells of every write that was acknowledged.

    python store_writer.py DIRECTORY SEED [--only-log]

With `--only-log` nothing is copied from the log into the database, nor compacted.

Each of its writers writes a pair of objects at a time, `left` and `right`, with the same count; at every fifth count
`right` is deleted instead. For each acknowledged pair it prints the writer, the count and the newer revision.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from muster.cluster.store import Delete, Header, Key, Put, Store, database
from muster.cluster.store.sqlite import SqliteJournal

WRITERS = 8
GONE_EVERY = 5

CHECKPOINT_BYTES = 128 << 10  # so often that a kill falls into every phase
COMPACT_REVISIONS = 20


def header_of(_: str, body: bytes) -> Header:
    """Nothing is read from these bodies."""
    del body
    return Header()


def count_of(body: bytes) -> int:
    """Bodies are the revision, the count and some padding."""
    return int(body.split(b" ", 2)[1])


def key(writer: int, side: str) -> Key:
    """Each writer has its namespace."""
    return Key("pods", str(writer), side)


def pair(store: Store, writer: int, count: int, size: int) -> list[Put | Delete]:
    """The writes for one count."""

    def encode(revision: int) -> bytes:
        return b"%d %d %b" % (revision, count, b"x" * size)

    right = key(writer, "right")
    if count % GONE_EVERY:
        return [Put(key(writer, "left"), encode), Put(right, encode)]
    removal = [Delete(right, encode)] if store.latest(right) else []
    return [Put(key(writer, "left"), encode), *removal]


async def write(store: Store, writer: int, random: random.Random) -> None:
    """Count on from what is there."""
    left = store.get(key(writer, "left"))
    count = count_of(left.body) if left else 0
    while True:
        count += 1
        entries = await store.write(*pair(store, writer, count, random.choice([10, 1_000, 20_000])))
        os.write(1, b"%d %d %d\n" % (writer, count, entries[-1].revision))


async def compact(store: Store, random: random.Random) -> None:
    """Forget all the time, at no rhythm."""
    while True:
        await asyncio.sleep(random.uniform(0, 0.02))
        await store.compact(store.revision - random.randrange(100))


async def main(directory: Path, seed: str, only_log: bool) -> None:
    """Until killed."""
    database.CHECKPOINT_BYTES = sys.maxsize if only_log else CHECKPOINT_BYTES
    database.COMPACT_REVISIONS = COMPACT_REVISIONS
    async with Store(SqliteJournal(directory), header_of) as store, asyncio.TaskGroup() as tasks:
        if not only_log:
            tasks.create_task(compact(store, random.Random(f"{seed} compact")))
        for writer in range(WRITERS):
            tasks.create_task(write(store, writer, random.Random(f"{seed} {writer}")))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], "--only-log" in sys.argv[3:]))
