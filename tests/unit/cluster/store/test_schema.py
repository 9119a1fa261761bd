import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cluster.store.kit import Kit, key, put, value_of

from muster.cluster.store import DataDirectoryError, Store
from muster.cluster.store.schema import UPGRADES, Step, prepare

# A database as the first release wrote it. Stays as it is for ever.
VERSION_1 = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    INSERT INTO meta VALUES ('version', 1), ('compacted', 1);
    CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        deleted INTEGER NOT NULL,
        previous INTEGER,
        body BLOB NOT NULL
    );
    INSERT INTO log VALUES (1, 'pods', 'default', 'a', 0, NULL, X'7B2276616C7565223A2231227D');
    INSERT INTO log VALUES (2, 'pods', 'default', 'a', 0, 1, X'7B2276616C7565223A2232227D');
    INSERT INTO log VALUES (3, 'nodes', '', 'n', 0, NULL, X'7B2276616C7565223A2231227D');
    INSERT INTO log VALUES (4, 'nodes', '', 'n', 1, 3, X'7B2276616C7565223A2231227D');
"""

# As the release wrote it that gave rows checksums. Stays as it is for ever.
VERSION_2 = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    INSERT INTO meta VALUES ('version', 2), ('compacted', 1), ('removed', 0), ('digest', 1773486779);
    CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        deleted INTEGER NOT NULL,  -- 1 if the object is gone since this revision
        previous INTEGER,          -- the revision that this one replaces; NULL if the object was created
        digest INTEGER NOT NULL,   -- the checksum of all other columns
        body BLOB NOT NULL         -- the object as JSON, with its revision; if deleted, its last state
    );
    INSERT INTO log VALUES (1, 'pods', 'default', 'a', 0, NULL, 13011021, X'7B2276616C7565223A2231227D');
    INSERT INTO log VALUES (2, 'pods', 'default', 'a', 0, 1, 1381569166, X'7B2276616C7565223A2232227D');
    INSERT INTO log VALUES (3, 'nodes', '', 'n', 0, NULL, 2745077959, X'7B2276616C7565223A2231227D');
    INSERT INTO log VALUES (4, 'nodes', '', 'n', 1, 3, 1840475582, X'7B2276616C7565223A2231227D');
"""
MARK_2 = b"muster store 4 5980133728 1".ljust(119) + b"57f0d23b\n"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()[0])


def add_color(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE log ADD COLUMN color TEXT")


def paint(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE log SET color = 'red'")


def fail(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM log")
    raise sqlite3.OperationalError("it does not work")


def test_a_new_database_has_the_current_version(connection: sqlite3.Connection) -> None:
    prepare(connection, "x")
    assert version(connection) == len(UPGRADES) + 1
    prepare(connection, "x")
    assert version(connection) == len(UPGRADES) + 1


@pytest.mark.parametrize(("database", "mark"), [(VERSION_1, b""), (VERSION_2, MARK_2)], ids=["1", "2"])
def test_every_version_still_opens(sqlite: Kit, tmp_path: Path, database: str, mark: bytes) -> None:
    (tmp_path / "data").mkdir()
    old = sqlite3.connect(tmp_path / "data" / "store.db")
    old.executescript(f"PRAGMA journal_mode=WAL; {database}")
    old.close()
    (tmp_path / "data" / "store.mark").write_bytes(mark)

    async def test() -> None:
        async with sqlite.store() as store:
            assert (store.revision, store.oldest) == (4, 1)
            assert [value_of(entry) for entry in store.list("pods").entries] == ["2"]
            [change] = await store.watch("pods", 1).next()
            assert (change.type, value_of(change.previous)) == ("MODIFIED", "1")
            assert [change.type for change in await store.watch("nodes", 1).next()] == ["ADDED", "DELETED"]

    sqlite.run(test())
    sqlite.on(lambda store: store.write(put(key("b"))))
    sqlite.on(lambda store: store.compact(store.revision))
    sqlite.on(lambda store: store.write(put(key("c"))))


@pytest.mark.parametrize("steps", [(add_color,), (add_color, paint)])
def test_an_old_database_goes_through_every_step(connection: sqlite3.Connection, steps: tuple[Step, ...]) -> None:
    connection.executescript(VERSION_1)
    prepare(connection, "x", steps)
    assert version(connection) == len(steps) + 1
    colors = {color for (color,) in connection.execute("SELECT color FROM log")}
    assert colors == ({None} if len(steps) == 1 else {"red"})


def test_only_the_missing_steps_are_taken(connection: sqlite3.Connection) -> None:
    connection.executescript(VERSION_1)
    prepare(connection, "x", (add_color,))
    prepare(connection, "x", (add_color, paint))
    assert version(connection) == 3


def test_a_step_that_fails_leaves_the_old_version_whole(connection: sqlite3.Connection) -> None:
    connection.executescript(VERSION_1)
    before = list(connection.iterdump())
    with pytest.raises(sqlite3.OperationalError):
        prepare(connection, "x", (add_color, fail))
    assert list(connection.iterdump()) == before


def test_a_newer_version_is_refused_naming_both_and_not_touched(connection: sqlite3.Connection) -> None:
    connection.executescript(VERSION_1)
    prepare(connection, "x", (add_color, paint))
    before = list(connection.iterdump())
    with pytest.raises(DataDirectoryError) as refused:
        prepare(connection, "/data/store.db", (add_color,))
    assert str(refused.value).startswith("/data/store.db was written by a newer release")
    assert "its schema version is 3, this release knows versions up to 2" in str(refused.value)
    assert list(connection.iterdump()) == before


@pytest.mark.parametrize(
    "foreign",
    [
        "CREATE TABLE songs (title)",
        "CREATE TABLE meta (key, value)",
        "CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('version', 'one')",
        "CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('version', 0)",
    ],
)
def test_a_database_of_something_else_is_refused_and_not_touched(connection: sqlite3.Connection, foreign: str) -> None:
    connection.executescript(foreign)
    before = list(connection.iterdump())
    with pytest.raises(DataDirectoryError, match="is the database of another program"):
        prepare(connection, "x")
    assert list(connection.iterdump()) == before


@pytest.mark.parametrize("reached", ["", "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL"])
def test_a_first_start_that_was_interrupted_is_begun_again(sqlite: Kit, tmp_path: Path, reached: str) -> None:
    (tmp_path / "data").mkdir()
    connection = sqlite3.connect(tmp_path / "data" / "store.db")
    connection.executescript(reached)
    connection.close()
    sqlite.on(lambda store: store.write(put(key("a"), "first")))

    async def there(store: Store) -> None:
        assert value_of(store.get(key("a"))) == "first"
        assert value_of((await store.write(put(key("a"), "second")))[0]) == "second"

    sqlite.on(there)


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_garbage_in_the_place_of_the_database_is_one_clear_line(sqlite: Kit, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "store.db").write_bytes(content)

    async def test() -> None:
        with pytest.raises(DataDirectoryError, match=r"the store in .*/data is damaged: "):
            await sqlite.store().open()
        assert (tmp_path / "data" / "store.db").read_bytes() == content
        with pytest.raises(DataDirectoryError, match="is damaged"):
            await sqlite.store().open()

    sqlite.run(test())
