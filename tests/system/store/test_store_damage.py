"""Damage of a store's files: every flipped bit, every cut, every missing or exchanged file is noticed or harmless.

Harmless is what leaves all that was acknowledged as it was. `--long` flips every bit.
"""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.store.store_writer import header_of

from muster.cluster.store import DataDirectoryError, Delete, Key, Put, Store
from muster.cluster.store.database import PAGE_BYTES
from muster.cluster.store.integrity.acceptance import admit
from muster.cluster.store.integrity.inspection import Contents, Damage
from muster.cluster.store.sqlite import SqliteJournal

pytestmark = pytest.mark.slow

FILES = ("store.db", "store.db-wal", "store.mark")
SAMPLE = 300  # bits of each file in the short form, besides those of the headers
DATABASE_HEADER, LOG_HEADER, FRAME_HEADER = 100, 32, 24


def put(name: str, size: int = 300) -> Put:
    return Put(Key("pods", "default", name), lambda revision: b"%d 0 %b" % (revision, name[-1:].encode() * size))


async def fill(directory: Path, killed: Path, older: Path) -> None:
    """A store with all that one can have; `killed` is as a kill would leave it, `older` a while before that."""
    async with Store(SqliteJournal(directory), header_of) as store:
        await store.write(*(put(f"pod-{number}", 3_000) for number in range(8)))
        await store.write(put("gone", 100), put("large", 20_000))
        for size in (900, 1_000, 1_100):
            await store.write(put("pod-1", size))
        await store.write(Delete(Key("pods", "default", "gone"), put("gone").encode))
        await store.compact(store.revision - 1)
        shutil.copytree(directory, older)
        await store.write(put("pod-2", 500), put("new", 400))
        await store.write(Delete(Key("pods", "default", "pod-3"), put("pod-3").encode))
        await store.write(put("last", 10))
        shutil.copytree(directory, killed)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three directories: `closed`, `killed` (with a log), and `older`."""
    directory = tmp_path_factory.mktemp("stores")
    asyncio.run(fill(directory / "closed", directory / "killed", directory / "older"))
    return directory


@pytest.fixture(params=["closed", "killed"])
def store(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(made / request.param, tmp_path / "store"))


def read(directory: Path) -> Contents | None:
    """What a start would read; None if it is refused."""
    try:
        contents = admit(directory, is_used=True)
    except (Damage, DataDirectoryError):
        return None
    assert contents is not None, "it is not taken for a new one"
    return contents


def whole(directory: Path) -> Contents:
    """What is there without damage."""
    contents = read(directory)
    assert contents is not None
    return contents


def everything(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def live_on(directory: Path, expected: Contents) -> None:
    """A store that is harmlessly damaged takes writes and compactions, and holds what it held after a restart."""
    objects: dict[Key, bytes] = {}
    for record in expected.history.records:
        objects[record.key] = record.body
        if record.deleted:
            del objects[record.key]
    for number in (1, 2):
        async with Store(SqliteJournal(directory), header_of) as store:
            assert {entry.key: entry.body for entry in store.everything().entries} == objects
            for entry in await store.write(*(put(f"more-{number}-{n}", 3_000) for n in range(5))):
                objects[entry.key] = entry.body
            await store.compact(store.revision)


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def headers(name: str, size: int) -> Iterator[int]:
    """The bytes that say how the rest is to be read."""
    if name == "store.mark":
        yield from range(size)
    elif name == "store.db":
        yield from range(DATABASE_HEADER)
        for page in range(0, size, PAGE_BYTES):  # of each page its head, and where its rows are
            yield from range(page, page + 24)
    else:
        yield from range(LOG_HEADER)
        for frame in range(LOG_HEADER, size, FRAME_HEADER + PAGE_BYTES):
            yield from range(frame, frame + FRAME_HEADER)


def chosen_bits(path: Path, long: bool) -> list[int]:
    size = path.stat().st_size
    if long:
        return list(range(size * 8))
    heads = {8 * byte + bit for byte in headers(path.name, size) for bit in (0, 3, 7)}
    if path.name == "store.db":  # the names of the tables in the first page: what is no text any more
        heads |= {8 * at + 7 for at, byte in enumerate(path.read_bytes()[:PAGE_BYTES]) if byte}
    return sorted(heads | set(range(0, size * 8, size * 8 // SAMPLE | 1)))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_noticed_or_harmless(store: Path, name: str, long: bool) -> None:
    expected, before = whole(store), everything(store)
    if name not in before:
        pytest.skip("a store that was closed has no log")
    noticed = 0
    for bit in chosen_bits(store / name, long):
        flip(store / name, bit)
        found = read(store)
        flip(store / name, bit)
        assert found is None or found.history == expected.history, f"bit {bit}"
        noticed += found is None
    assert noticed > 100
    assert everything(store) == before, "what is looked at stays as it is"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_store_with_a_harmless_flip_lives_on(store: Path, tmp_path: Path, long: bool) -> None:
    expected, lives = whole(store), 0
    bits = chosen_bits(store / "store.db", long=False)
    for bit in bits if long else bits[::41]:
        flip(store / "store.db", bit)
        if read(store) is not None:
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            shutil.copytree(store, tmp_path / "copy")
            asyncio.run(live_on(tmp_path / "copy", expected))
            lives += 1
        flip(store / "store.db", bit)
    assert lives > 5


@pytest.mark.parametrize("name", FILES)
def test_every_cut_is_noticed_or_harmless(store: Path, name: str, long: bool) -> None:
    expected = whole(store)
    if not (store / name).exists():
        pytest.skip("a store that was closed has no log")
    content = (store / name).read_bytes()
    frames = range(LOG_HEADER, len(content), FRAME_HEADER + PAGE_BYTES)
    edges = {edge + more for edge in (0, *range(0, len(content), PAGE_BYTES), *frames) for more in (0, 1, 100)}
    cuts = edges | set(range(0, len(content), 97 if long else 4_999)) | {len(content) - 1}
    noticed = 0
    for cut in sorted(cuts & set(range(len(content)))):
        for tail in (b"", bytes(len(content) - cut)):
            (store / name).write_bytes(content[:cut] + tail)
            found = read(store)
            assert found is None or found.history == expected.history, f"cut at {cut}"
            noticed += found is None
    assert noticed > 10


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", ["removed", "emptied", "older"])
def test_a_missing_or_exchanged_file_is_noticed_or_harmless(made: Path, store: Path, name: str, change: str) -> None:
    expected = whole(store)
    if change == "older":
        shutil.copy(made / "older" / name, store / name)
    elif change == "removed":
        (store / name).unlink(missing_ok=True)
    else:
        (store / name).write_bytes(b"")
    found = read(store)
    assert found is None or found.history == expected.history
    if name != "store.db-wal" and change != "older":
        assert found is None


def test_an_older_set_of_files_is_noticed_by_the_mark(made: Path, store: Path) -> None:
    shutil.copy(made / "older" / "store.db", store)
    shutil.copy(made / "older" / "store.db-wal", store)
    assert read(store) is None
