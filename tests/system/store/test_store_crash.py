"""The store under kill -9, and under a log that was torn by a power cut."""

import asyncio
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.system.store import store_writer
from tests.system.store.store_writer import GONE_EVERY, WRITERS, count_of, header_of, key

from muster.cluster.store import Change, DataDirectoryError, Entry, Store
from muster.cluster.store.integrity.mark import Mark
from muster.cluster.store.sqlite import SqliteJournal

pytestmark = pytest.mark.slow


@dataclass
class Acknowledged:
    """What a writing process said before it died: for each writer its last count, and the newest revision."""

    counts: dict[int, int] = field(default_factory=dict)
    revision: int = 0

    def add(self, line: bytes) -> None:
        writer, count, revision = map(int, line.split())
        self.counts[writer] = count
        self.revision = max(self.revision, revision)


def write_until_killed(directory: Path, seed: str, acknowledged: Acknowledged, *options: str) -> None:
    """Kill a writer at some instant after some number of writes, both drawn from the seed."""
    draw = random.Random(seed)
    command = [sys.executable, store_writer.__file__, str(directory), seed, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(draw.randrange(1, 1500)):
            acknowledged.add(process.stdout.readline())
        instant = time.perf_counter() + draw.uniform(0, 0.005)
        while time.perf_counter() < instant:
            pass
        process.kill()
        for line in process.stdout:
            acknowledged.add(line)
    assert process.returncode == -9, "it ended by itself"


async def check(directory: Path, acknowledged: Acknowledged) -> None:
    """Nothing acknowledged is missing, nothing is half there, and watches resume."""
    async with Store(SqliteJournal(directory), header_of) as store:
        assert store.revision >= acknowledged.revision
        for writer in range(WRITERS):
            count = whole_count(store.get(key(writer, "left")), store.get(key(writer, "right")))
            assert count >= acknowledged.counts.get(writer, 0)
        if store.revision > store.oldest:
            follow(await store.watch("pods", store.oldest).next(), store)


def whole_count(left: Entry | None, right: Entry | None) -> int:
    """The count of a pair, both of whose objects must show it."""
    count = count_of(left.body) if left else 0
    expected = count if count % GONE_EVERY else None
    assert (count_of(right.body) if right else None) == expected
    for entry in filter(None, (left, right)):
        assert entry.body.startswith(b"%d " % entry.revision)
    return count


def follow(changes: list[Change], store: Store) -> None:
    """The history is whole: it leads from each state to the next, up to the one that is there."""
    revisions = [change.revision for change in changes]
    assert revisions == list(range(store.oldest + 1, store.revision + 1)), "this writer leaves no gaps"
    newest: dict[object, Entry | None] = {}
    for change in changes:
        if change.entry.key in newest:
            assert change.previous is newest[change.entry.key]
        newest[change.entry.key] = None if change.type == "DELETED" else change.entry
    assert all(store.get(each) is entry for each, entry in newest.items())  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_kill_nine_loses_nothing_that_was_acknowledged(tmp_path: Path, long: bool) -> None:
    acknowledged = Acknowledged()
    for number in range(200 if long else 8):
        write_until_killed(tmp_path / "data", f"kill {number}", acknowledged)
        asyncio.run(check(tmp_path / "data", acknowledged))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_torn_log_leaves_a_whole_state(tmp_path: Path, long: bool) -> None:
    """Cut or damaged at any place, the log counts up to its last whole transaction, if no more was acknowledged.

    A loss of power tears what nobody was told of, and brings an older mark back. Beside a mark that says that more was
    acknowledged, a torn log is refused.
    """
    acknowledged = Acknowledged()
    write_until_killed(tmp_path / "data", "tear", acknowledged, "--only-log")
    log = (tmp_path / "data" / "store.db-wal").read_bytes()
    draw = random.Random("cuts")
    for _ in range(300 if long else 15):
        shutil.rmtree(tmp_path / "torn", ignore_errors=True)
        shutil.copytree(tmp_path / "data", tmp_path / "torn")
        at = draw.randrange(len(log))
        tail = draw.choice([b"", bytes(len(log) - at), draw.randbytes(len(log) - at)])
        (tmp_path / "torn" / "store.db-wal").write_bytes(log[:at] + tail)
        with suppress(DataDirectoryError):
            asyncio.run(check(tmp_path / "torn", acknowledged))
        (tmp_path / "torn" / "store.mark").write_bytes(Mark().encode())
        asyncio.run(check(tmp_path / "torn", Acknowledged()))
