"""What is taken from a damaged store: all that is whole, nothing that was gone, and a true account of the rest."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.system.store.store_writer import header_of
from tests.system.store.test_store_damage import FILES, chosen_bits, fill, flip, put, read, whole

from muster.cluster.store import Delete, Key, Store
from muster.cluster.store.integrity.acceptance import LOG, read_mark
from muster.cluster.store.integrity.archive import BEYOND, Backup, install
from muster.cluster.store.integrity.inspection import Damage
from muster.cluster.store.integrity.mark import Mark
from muster.cluster.store.integrity.pages import pages_of
from muster.cluster.store.integrity.salvage import Findings, list_living, salvage
from muster.cluster.store.sqlite import SqliteJournal


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    asyncio.run(fill(directory / "closed", directory / "killed", directory / "older"))
    return directory


@pytest.fixture(params=["closed", "killed"])
def store(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / request.param, tmp_path / "store"))


def found(directory: Path) -> Findings:
    mark: Mark | None
    try:
        mark = read_mark(directory)
    except Damage:
        mark = None
    content = [(directory / name).read_bytes() if (directory / name).exists() else b"" for name in ("store.db", LOG)]
    return salvage(pages_of(*content), mark, lambda _, body: bool(body))


def test_of_a_whole_store_everything_is_found(store: Path) -> None:
    contents = whole(store)
    findings = found(store)
    expected = Findings(list_living(contents.history.records), [], 0, False, True, contents.mark.revision)
    assert findings == expected


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_costs_what_it_hits_and_that_is_said(store: Path, name: str, long: bool) -> None:
    if not (store / name).exists():
        pytest.skip("a store that was closed has no log")
    contents = whole(store)
    expected = {record.key: record for record in list_living(contents.history.records)}
    written = {record.revision: record for record in contents.history.records}
    for bit in chosen_bits(store / name, long)[:: 1 if long else 5]:
        flip(store / name, bit)
        findings = found(store)
        flip(store / name, bit)
        taken = {record.key: record for record in findings.living}
        assert all(written.get(record.revision) == record for record in taken.values()), f"bit {bit}"
        changed = {key for key in expected | taken if expected.get(key) != taken.get(key)}
        assert not changed or not findings.is_complete, f"bit {bit}"
        # At worst a page, which holds a few rows, is not known for what it is.
        assert len(changed) <= 4, f"bit {bit}"
        assert findings.newest >= (0 if name == "store.mark" else contents.mark.revision)


@pytest.mark.parametrize("frame", [0, 1, 2])
def test_what_follows_a_damaged_frame_of_the_log_is_found(made: Path, tmp_path: Path, frame: int) -> None:
    """SQLite drops it."""
    store = Path(shutil.copytree(made / "killed", tmp_path / "store"))
    expected = list_living(whole(store).history.records)
    flip(store / LOG, 8 * (32 + frame * (24 + 8192) + 24 + 8000))
    assert read(store) is None
    missing = {record.key.name for record in expected} - {record.key.name for record in found(store).living}
    assert len(missing) <= 1


def test_a_damaged_row_is_named(made: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(made / "closed", tmp_path / "store"))
    flip(store / "store.db", 8 * ((store / "store.db").read_bytes().index(b"6" * 1_000) + 500))
    findings = found(store)
    assert findings.doubtful == [Key("pods", "default", "pod-6")]
    assert (findings.missing, findings.is_complete) == (1, False)


def test_what_is_lost_is_counted_by_the_mark(store: Path) -> None:
    before = whole(store)
    (store / "store.db").unlink()
    (store / LOG).unlink(missing_ok=True)
    findings = found(store)
    assert (findings.living, findings.missing, findings.is_complete) == ([], before.mark.objects, False)
    assert findings.newest == before.mark.revision


def test_rows_without_checksums_are_not_judged() -> None:
    class Old:
        def entries(self) -> list[tuple[object, ...]]:
            return []

        older_rows = entries

        def rows(self) -> list[tuple[object, ...]]:
            return [(1, "pods", "default", "a", 0, None, b"{}")]

    assert salvage(Old(), None, lambda *_: True).is_unchecked  # type: ignore[arg-type]


def test_a_store_goes_on_with_what_was_salvaged(store: Path, tmp_path: Path) -> None:
    """Its revisions are new, and whoever watched has to list again."""
    newest = whole(store).mark.revision
    (store / "store.mark").write_bytes(b"")
    findings = found(store)
    assert not findings.is_complete
    objects = [record._replace(previous=None) for record in findings.living]
    install(store, Backup(objects, findings.newest + BEYOND, {}), tmp_path / "aside")

    async def go_on() -> None:
        async with Store(SqliteJournal(store), header_of) as opened:
            assert {e.key: e.body for e in opened.everything().entries} == {r.key: r.body for r in findings.living}
            assert opened.oldest == opened.revision == newest + BEYOND
            await opened.compact(opened.revision)

    asyncio.run(go_on())
    asyncio.run(go_on())
    assert (tmp_path / "aside" / "store.db").exists()


def test_an_object_that_was_gone_does_not_come_back(tmp_path: Path) -> None:
    """Its rows are still in pages that are not in use."""

    async def forget() -> None:
        async with Store(SqliteJournal(tmp_path / "s"), header_of) as store:
            await store.write(*(put(f"pod-{number}", 5_000) for number in range(30)))
            for number in range(25):
                await store.write(Delete(Key("pods", "default", f"pod-{number}"), put("x", 5_000).encode))
            await store.compact(store.revision)
            await store.write(put("last"))
            shutil.copytree(tmp_path / "s", tmp_path / "killed")

    asyncio.run(forget())
    for directory in (tmp_path / "s", tmp_path / "killed"):
        names = [record.key.name for record in found(directory).living]
        assert names == ["pod-25", "pod-26", "pod-27", "pod-28", "pod-29", "last"]
