"""What is particular to the journal on disk."""

import asyncio
import errno
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvloop
from tests.unit.cluster.store.kit import Kit, key, put

from muster.cluster.store import DataDirectoryError, Key, StorageFailed, StorageFull
from muster.cluster.store.database import COMPACT_REVISIONS, PAGE_BYTES, RESERVE_BYTES, Database
from muster.cluster.store.directory import DataDirectory
from muster.cluster.store.integrity.acceptance import admit
from muster.cluster.store.integrity.inspection import Contents
from muster.cluster.store.journal import JournalRecord
from muster.cluster.store.sqlite import SWITCH_SECONDS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def directory(data: Path) -> Iterator[DataDirectory]:
    directory = DataDirectory(data)
    yield directory
    directory.release()


@pytest.fixture
def database(directory: DataDirectory) -> Iterator[Database]:
    database = Database(directory)
    yield database
    database.close()


def record(
    key: Key, revision: int, previous: int | None = None, *, deleted: bool = False, size: int = 10
) -> JournalRecord:
    return JournalRecord(revision, key, deleted, previous, b"x" * size)


def rows(database: Database) -> list[int]:
    return [revision for (revision,) in database._connection.execute("SELECT revision FROM log")]


def held(data: Path) -> Contents:
    """What a start would find now."""
    contents = admit(data, is_used=True)
    assert contents is not None
    return contents


def pragma(database: Database, name: str) -> int:
    return int(database._connection.execute(f"PRAGMA {name}").fetchone()[0])


def edit(data: Path, statement: str) -> None:
    connection = sqlite3.connect(data / "store.db", isolation_level=None)
    connection.execute(statement)
    connection.close()


def test_no_other_connection_gets_at_the_file(database: Database, data: Path) -> None:
    """Of this process or another: one connection writes and checkpoints, and SQLite sees to it."""
    database.append([record(key("a"), 1)])
    other = sqlite3.connect(data / "store.db", timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("SELECT * FROM log").fetchall()
    other.close()


def test_a_file_that_somebody_has_open_is_one_clear_line(directory: DataDirectory, data: Path) -> None:
    other = sqlite3.connect(data / "store.db", isolation_level=None)
    other.execute("CREATE TABLE t (a)")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DataDirectoryError, match=r"cannot use .*store.db: database is locked"):
        Database(directory)
    other.close()


def test_its_files_are_private(database: Database, data: Path) -> None:
    database.append([record(key("a"), 1)])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()}
    assert modes == {"lock": 0o600, "store.db": 0o600, "store.db-wal": 0o600, "store.mark": 0o600}


def test_a_batch_of_any_size_is_one_transaction(database: Database) -> None:
    sizes, revision = (1, 2, 1000, 1001, 40_000), 0
    for size in sizes:
        batch = [record(key(str(number)), revision + 1 + number) for number in range(size)]
        database.append(batch)
        revision += size
    assert rows(database) == list(range(1, revision + 1))


@pytest.mark.parametrize("size", [2, 3_000])
def test_of_a_batch_that_fails_nothing_is_kept(database: Database, size: int) -> None:
    database.append([record(key("a"), 1)])
    batch = [record(key(str(revision)), revision) for revision in range(size, 0, -1)]
    with pytest.raises(StorageFailed, match="UNIQUE"):
        database.append(batch)
    assert rows(database) == [1]


def test_compaction_keeps_what_the_history_after_it_needs(database: Database, data: Path) -> None:
    a, b, c = key("a"), key("b"), key("c")
    database.append(
        [
            record(a, 1),
            record(b, 2),
            record(a, 3, 1),
            record(b, 4, 2, deleted=True),
            record(c, 5),
            record(a, 6, 3),
            record(b, 7),
            record(c, 8, 5, deleted=True),
        ]
    )
    kept = []
    for revision in range(1, 9):
        database.compact(revision)
        kept.append(rows(database))
    assert kept == [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [1, 2, 3, 4, 5, 6, 7, 8],
        [2, 3, 4, 5, 6, 7, 8],
        [3, 5, 6, 7, 8],
        [3, 5, 6, 7, 8],
        [5, 6, 7, 8],
        [5, 6, 7, 8],
        [6, 7],
    ]
    assert held(data).history.compacted == 8


def test_compaction_goes_in_steps_and_gives_the_space_back(database: Database, data: Path) -> None:
    a = key("a")
    count = 3 * COMPACT_REVISIONS
    for at in range(0, count, 1000):
        database.append([record(a, at + n + 1, at + n or None, size=5000) for n in range(1000)])
    database.checkpoint()
    before = (data / "store.db").stat().st_size
    steps = 1
    while database.compact(count - 1):
        steps += 1
    assert steps == 3
    assert rows(database) == [count - 1, count]
    vacuums = 1
    while database.vacuum():
        vacuums += 1
    assert vacuums > 1
    assert (data / "store.db").stat().st_size < before / 20 + RESERVE_BYTES
    assert pragma(database, "freelist_count") == RESERVE_BYTES // PAGE_BYTES
    assert pragma(database, "auto_vacuum") == 2
    assert database._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_log_is_copied_into_the_database_before_it_grows_long(database: Database, data: Path) -> None:
    due, revision = False, 0
    while not due:
        revision += 100
        due = database.append([record(key("a"), revision + n, size=10_000) for n in range(100)])
        assert revision < 10_000
    database.checkpoint()
    for _ in range(20):
        revision += 100
        if database.append([record(key("a"), revision + n, size=10_000) for n in range(100)]):
            database.checkpoint()
    assert (data / "store.db").stat().st_size > 20_000_000
    assert (data / "store.db-wal").stat().st_size < 20_000_000


def test_a_full_disk_refuses_writes_until_there_is_room_again(database: Database, data: Path) -> None:
    a = key("a")
    database.append([record(a, 1)])
    pages = pragma(database, "page_count")
    database._connection.execute(f"PRAGMA max_page_count={pages}")
    for _ in range(3):
        with pytest.raises(StorageFull, match=r"no space left for .*store.db.*free some disk space"):
            database.append([record(a, 2, 1, size=100_000)])
    assert database.full is not None, "as where a quota is exhausted, which the free space does not show"
    assert rows(database) == [1]
    assert [r.body for r in held(data).history.records] == [b"x" * 10]
    database._connection.execute(f"PRAGMA max_page_count={pages + 100}")
    database.append([record(a, 2, 1, size=100_000)])
    assert rows(database) == [1, 2]


@pytest.mark.parametrize(
    ("blocks", "free", "is_full"),
    [
        (1 << 20, 1024, False),  # 4 MiB in blocks of 4 KiB
        (1 << 20, 1023, True),
        (2000, 100, False),  # of a small disk, a twentieth
        (2000, 99, True),
    ],
)
def test_a_disk_with_little_room_takes_nothing_new(
    database: Database, monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, is_full: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_blocks=blocks, f_frsize=4096))
    database.append([record(key("a"), 1)])
    assert (database.full is not None) == is_full
    monkeypatch.undo()
    assert not database.check_disk()
    assert database.full is None


@pytest.mark.parametrize(("free", "is_due"), [(8 * RESERVE_BYTES, False), (8 * RESERVE_BYTES - 1, True)])
def test_on_a_disk_without_room_for_a_reserve_the_log_is_copied_after_every_write(
    database: Database, monkeypatch: pytest.MonkeyPatch, free: int, is_due: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_blocks=1 << 40, f_frsize=1))
    assert database.append([record(key("a"), 1)]) == is_due


def test_the_reserve_is_free_pages_and_log(database: Database, data: Path) -> None:
    for _ in range(2):  # it is not made again
        database.reserve()
        assert pragma(database, "freelist_count") >= RESERVE_BYTES // PAGE_BYTES
        assert (data / "store.db-wal").stat().st_size >= RESERVE_BYTES
        assert (data / "store.db").stat().st_size < 2 * RESERVE_BYTES


@pytest.mark.parametrize("call", ["statvfs", "posix_fallocate"])
def test_a_store_without_a_reserve_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.ENFILE, "Too many open files in system")

    monkeypatch.setattr(os, call, failing)
    database.reserve()
    monkeypatch.undo()
    assert "no room was reserved for a full disk" in caplog.text
    database.append([record(key("a"), 1)])
    assert rows(database) == [1]


def test_an_exhausted_quota_counts_as_a_full_disk(
    memory: Kit, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Path, content: bytes) -> None:
        raise OSError(122, "Disk quota exceeded")

    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    monkeypatch.setattr(Path, "write_bytes", failing)
    assert isinstance(database._refuse(error), StorageFull)
    monkeypatch.undo()
    assert isinstance(database._refuse(error), StorageFailed)


def test_a_disk_that_became_read_only_counts_as_failed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a disk refuses to delete a file, too, even one that does not exist."""

    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    monkeypatch.setattr(Path, "write_bytes", failing)
    monkeypatch.setattr(Path, "unlink", failing)
    refusal = database._refuse(error)
    monkeypatch.undo()
    assert isinstance(refusal, StorageFailed)


def test_a_start_with_an_exhausted_quota_says_where_to_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE

    def failing(*_: object, **__: object) -> None:
        raise error

    def refuse_probe(self: Path, content: bytes) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr("muster.cluster.store.database.prepare", failing)
    directory = DataDirectory(tmp_path / "data")
    try:
        with pytest.raises(DataDirectoryError, match=r"cannot use .*store.db: disk I/O error"):
            Database(directory)
        monkeypatch.setattr(Path, "write_bytes", refuse_probe)
        with pytest.raises(DataDirectoryError, match=rf"no space left for .*: free .* df -h {tmp_path}/data "):
            Database(directory)
    finally:
        directory.release()


def test_a_checkpoint_that_fails_stops_the_next_write(database: Database) -> None:
    database.append([record(key("a"), 1)])
    database._refuse(sqlite3.OperationalError("disk I/O error"))
    with pytest.raises(StorageFailed, match=r"cannot write to .*: disk I/O error"):
        database.append([record(key("a"), 2, 1)])


@pytest.mark.parametrize("name", ["store.db", "store.db-wal"])
def test_nothing_is_acknowledged_in_a_file_that_was_removed(database: Database, data: Path, name: str) -> None:
    """Under a server that runs, as by `rm -r` of its home."""
    database.append([record(key("a"), 1)])
    (data / name).unlink()
    for revision in (2, 3):
        with pytest.raises(StorageFailed, match=rf"cannot write to .*{name}: it was removed while the server ran"):
            database.append([record(key("b"), revision)])


def test_a_directory_may_be_moved(database: Database, data: Path) -> None:
    data.rename(data.with_name("elsewhere"))
    database.append([record(key("a"), 1)])
    assert rows(database) == [1]


def test_a_start_that_fails_lets_go_of_everything(sqlite: Kit, data: Path) -> None:
    async def test() -> None:
        async with sqlite.store() as store:
            await store.write(put(key("a")))
            with pytest.raises(DataDirectoryError, match="in use by process"):
                await sqlite.store().open()
        for damage, repair, message in (
            (
                "UPDATE meta SET value = 99 WHERE key = 'version'",
                "UPDATE meta SET value = 2 WHERE key = 'version'",
                "newer release",
            ),
            (
                "ALTER TABLE log RENAME COLUMN body TO soul",
                "ALTER TABLE log RENAME COLUMN soul TO body",
                "is damaged: the tables are not those that were created",
            ),
            (
                "UPDATE log SET previous = 5, revision = 6",
                "UPDATE log SET previous = NULL, revision = 1",
                r"is damaged: the row of revision 6 \(pods default/a\) does not match its checksum",
            ),
            (
                "UPDATE meta SET value = 1 WHERE key = 'compacted'",
                "UPDATE meta SET value = 0 WHERE key = 'compacted'",
                "is damaged: the table meta does not match its checksum",
            ),
        ):
            edit(data, damage)
            for _ in range(2):
                with pytest.raises(DataDirectoryError, match=message):
                    await sqlite.store().open()
            edit(data, repair)
        async with sqlite.store() as store:
            assert len(store.list("pods").entries) == 1

    sqlite.run(test())


def test_a_busy_loop_does_not_stop_commits(sqlite: Kit) -> None:
    """The loop gives Python's lock away for an instant at a time; the journal's thread must get it nevertheless."""

    async def test() -> None:
        async with sqlite.store() as store:
            for number in range(10):
                done = store.write(put(key(str(number))))
                turns = 0
                while not done.done():
                    turns += 1
                    assert turns < 500, "a handful is usual"
                    until = time.perf_counter() + 0.001
                    while time.perf_counter() < until:
                        pass
                    await asyncio.sleep(0)
            # Whether it would starve depends on the machine, so look at the setting too.
            assert sys.getswitchinterval() <= SWITCH_SECONDS

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # which does it at every turn
        runner.run(test())
