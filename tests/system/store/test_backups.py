"""What a server gives away for a backup, while it goes on writing."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.system.store import store_writer
from tests.system.store.store_writer import header_of
from tests.system.store.test_store_damage import put

from muster.cluster import backups
from muster.cluster.store import DataDirectoryError, Delete, Key, Store
from muster.cluster.store.integrity.archive import Backup, load, write
from muster.cluster.store.sqlite import SqliteJournal


async def in_pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(content), size):
        yield content[at : at + size]


def test_a_backup_is_of_one_revision_whatever_is_written_meanwhile(tmp_path: Path) -> None:
    async def test() -> None:
        async with Store(SqliteJournal(tmp_path / "data"), header_of) as store:
            await store.write(*(put(f"pod-{number}", 20_000) for number in range(100)))
            expected = {entry.key: entry.body for entry in store.everything().entries}
            sent = backups.send(store)
            content = await anext(sent)
            await store.write(put("pod-0"), put("new"), Delete(Key("pods", "default", "pod-1"), put("x").encode))
            assert store.revision == 103
            content += b"".join([piece async for piece in sent])
        for size in (1, 7, 1_000, len(content)):
            records, revision = await backups.receive(in_pieces(content, size))
            assert ({record.key: record.body for record in records}, revision) == (expected, 100)
        for cut in (0, 3, 4, 100, len(content) - 1):
            with pytest.raises(DataDirectoryError, match="did not send all"):
                await backups.receive(in_pieces(content[:cut], 1_000))

    asyncio.run(test())


def test_a_backup_that_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    async def objects() -> None:
        async with Store(SqliteJournal(tmp_path / "data"), header_of) as store:
            await store.write(*(put(f"pod-{number}", 20 + number) for number in range(2_500)))

    asyncio.run(objects())
    records, revision = backups.read(tmp_path / "data")
    for name, backup in (("full", Backup(records, revision, {"pki/ca.pem": b"\0key"})), ("empty", Backup([], 7, {}))):
        write(tmp_path / name, backup)
        assert load(tmp_path / name) == backup
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "empty", "full"]
    with pytest.raises(FileExistsError):
        write(tmp_path / "full", Backup([], 7, {}))


@contextmanager
def run_writer(directory: Path) -> Iterator[None]:
    """Run a process that writes to a store without a pause, and that nobody hinders."""
    words = [sys.executable, store_writer.__file__, str(directory), "7"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        try:
            for _ in range(50):
                writer.stdout.readline()
            yield
            assert writer.poll() is None
        finally:
            writer.kill()


def test_a_store_is_checked_beside_the_server_that_writes_to_it(tmp_path: Path) -> None:
    """The writer copies its log into the database, and compacts, many times while the store is read."""
    with run_writer(tmp_path):
        before = (tmp_path / "store.mark").read_bytes()
        for _ in range(20):
            backups.check_beside_server(tmp_path)
        assert (tmp_path / "store.mark").read_bytes() != before
    assert not list(tmp_path.glob("*-seen*"))


def test_damage_beside_a_server_is_refused(tmp_path: Path) -> None:
    async def fill() -> None:
        async with Store(SqliteJournal(tmp_path / "data"), header_of) as store:
            await store.write(*(put(f"pod-{number}", 20_000) for number in range(10)))

    asyncio.run(fill())
    with (tmp_path / "data/store.db").open("r+b") as file:
        file.write(b"no database")

    with pytest.raises(DataDirectoryError, match=r"is damaged: .*Save them with `muster backup FILE`, then"):
        backups.check_beside_server(tmp_path / "data")
    assert not list((tmp_path / "data").glob("*-seen*"))
