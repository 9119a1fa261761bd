"""A process that writes to a durable store until the disk takes no more, and tells in JSON what it saw.

python store_filler.py DIRECTORY full BALLAST   the disk is small; removing BALLAST makes room again
python store_filler.py DIRECTORY broken         files cannot grow past some size, which is no lack of space
python store_filler.py DIRECTORY taken BALLAST  the disk is filled by another, into BALLAST
"""

import asyncio
import json
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from tests.system.store.store_writer import header_of

from muster.cluster.store import Key, Put, Store, WriteRefused
from muster.cluster.store.database import RESERVE_BYTES
from muster.cluster.store.sqlite import SqliteJournal


def put(number: int, size: int = 20_000) -> Put:
    """An object of some size."""
    return Put(Key("pods", "default", str(number)), lambda revision: b"%d 0 %b" % (revision, b"x" * size))


async def fill(store: Store) -> tuple[int, WriteRefused]:
    """Write until refused; the number of acknowledged writes, and the refusal."""
    for number in range(10_000):
        try:
            await store.write(put(number))
        except WriteRefused as refusal:
            return number, refusal
    raise AssertionError("the disk takes everything")


async def main(directory: Path, ballast: Path | None) -> dict[str, object]:
    """Fill, see what still works, make room if that is possible, and see what works again."""
    failures: list[str] = []
    async with Store(SqliteJournal(directory), header_of, on_failure=lambda f: failures.append(str(f))) as store:
        if ballast is None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        watch = store.watch("pods", 0)
        written, refusal = await fill(store)
        seen = await watch.next()
        read = store.list("pods")
        _, again = await fill_one(store, written)
        after = None
        if ballast is not None:
            ballast.unlink()
            after, _ = await fill_one(store, written)
    return {
        "written": written,
        "refusal": [refusal.code, refusal.reason, str(refusal)],
        "again": again and [again.code, again.reason],
        "read": len(read.entries),
        "watched": [len(seen), seen[-1].revision == read.revision],
        "failures": failures,
        "after": after,
    }


async def go_on(directory: Path, ballast: Path) -> dict[str, object]:
    """Fill the disk, change what is there by much more than the reserve, over and over, and add one object."""
    async with Store(SqliteJournal(directory), header_of) as store:
        for number in range(100):
            await store.write(put(number))
        await store.reserve()
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(100_000)):
                pass
        rounds = 0
        for _ in range(8 * RESERVE_BYTES // (100 * 20_000)):
            for number in range(100):
                await store.write(put(number))
            await store.compact(store.revision)
            await store.reserve()
            rounds += 1
        disk = os.statvfs(directory)
        _, new = await fill_one(store, 100)
    return {"rounds": rounds, "full": disk.f_bavail * disk.f_frsize < 100_000, "new": new and new.code}


async def fill_one(store: Store, number: int) -> tuple[bool, WriteRefused | None]:
    """Whether one more object can be written."""
    try:
        await store.write(put(number))
    except WriteRefused as refusal:
        return False, refusal
    return True, None


if __name__ == "__main__":
    directory, mode = Path(sys.argv[1]), sys.argv[2]
    ballast = Path(sys.argv[3]) if mode != "broken" else None
    story = go_on(directory, ballast) if ballast and mode == "taken" else main(directory, ballast)
    print(json.dumps(asyncio.run(story)))
