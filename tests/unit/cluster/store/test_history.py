"""The table of what ran."""

import sqlite3
from datetime import UTC, datetime

import pytest

from muster.cluster.store.history import FILE, MOST_AT_ONCE, HistoryError, HistoryFile, HistoryQuery, Row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FOR_EVER = {"oldest": 0, "most": 1_000_000}


def row(number, **about):
    said = {
        "uid": f"u{number:05}",
        "namespace": "default",
        "name": f"train-{number}",
        "owner": "ada",
        "queue": "q",
        "state": "Completed",
        "submitted": 100 * number,
        "ended": 100 * number + 50,
    } | about
    return Row(**said, body=f"{number}".encode())


@pytest.fixture
def path(tmp_path):
    return tmp_path / FILE


@pytest.fixture
def file(path):
    opened = HistoryFile(path, NOW)
    yield opened
    opened.close()


def numbers(found):
    return [int(body) for body in found.bodies]


def test_the_newest_end_comes_first_and_a_run_has_one_row(file):
    file.put([row(1), row(3), row(2)], **FOR_EVER)
    file.put([row(2)._replace(body=b"22")], **FOR_EVER)
    assert numbers(file.ask(HistoryQuery())) == [3, 22, 1]
    assert file.find_known(["u00001", "other"]) == {"u00001"}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (HistoryQuery(namespace="lab"), [5]),
        (HistoryQuery(owner="bob"), [4]),
        (HistoryQuery(queue="r"), [3]),
        (HistoryQuery(states=("Failed", "Deleted")), [2, 1]),
        (HistoryQuery(states=("Failed",), owner="bob"), []),
        (HistoryQuery(names=("train-1", "eval-*")), [6, 1]),
        (HistoryQuery(names=("train-[!1]",), states=("Failed",)), [2]),
        (HistoryQuery(since=450), [6, 5, 4]),
        (HistoryQuery(since=451), [6, 5]),
        (HistoryQuery(until=300), [2, 1]),
        (HistoryQuery(since=250, until=301), [3, 2]),
        (HistoryQuery(limit=2), [6, 5]),
        (HistoryQuery(limit=0), []),
    ],
)
def test_what_is_asked_for_is_found(file, question, expected):
    rows = [row(1, state="Deleted"), row(2, state="Failed"), row(3, queue="r"), row(4, owner="bob"),
            row(5, namespace="lab"), row(6, name="eval-6")]  # fmt: skip
    file.put(rows, **FOR_EVER)
    assert numbers(file.ask(question)) == expected


def test_a_long_answer_goes_on_where_it_was_cut(file):
    file.put([row(number, ended=7) for number in range(2 * MOST_AT_ONCE + 5)], **FOR_EVER)
    found: list[int] = []
    after, answers = None, 0
    while answers == 0 or after is not None:
        answer = file.ask(HistoryQuery(limit=10**9, after=after))
        found, after, answers = found + numbers(answer), answer.more, answers + 1
    assert answers == 3
    assert found == list(reversed(range(2 * MOST_AT_ONCE + 5)))


def test_what_is_old_or_too_many_is_forgotten(file):
    file.put([row(number) for number in range(10)], oldest=0, most=5)
    assert numbers(file.ask(HistoryQuery())) == [9, 8, 7, 6, 5]
    file.put([], oldest=750, most=5)
    assert numbers(file.ask(HistoryQuery())) == [9, 8, 7]


def test_what_is_too_many_is_known_without_counting_again(file, path):
    """Of rows that are new, known, too old, or there since an earlier start; and after a write that failed."""
    file.put([row(number) for number in range(10)], oldest=0, most=100)
    file.put([row(9), row(10), row(10), row(11)], oldest=0, most=12)
    with pytest.raises(HistoryError):
        file.put([row(12), row(13)._replace(name=None)], oldest=0, most=12)
    assert numbers(file.ask(HistoryQuery())) == list(range(11, -1, -1))
    file.put([row(14), row(0)], oldest=100, most=12)
    file.put([row(15)], oldest=0, most=12)
    assert numbers(file.ask(HistoryQuery())) == [15, 14, *range(11, 1, -1)][:12]
    file.close()
    again = HistoryFile(path, NOW)
    again.put([row(16)], oldest=0, most=3)
    assert numbers(again.ask(HistoryQuery())) == [16, 15, 14]
    again.close()


def test_it_is_there_at_the_next_start(path, file):
    file.put([row(1)], **FOR_EVER)
    copy = path.with_name("copy")
    copy.write_bytes(file.content())
    file.close()
    for each in (path, copy):
        again = HistoryFile(each, NOW)
        assert (numbers(again.ask(HistoryQuery())), again.aside) == ([1], "")
        again.close()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0" + b"x" * 8192])
def test_one_that_is_damaged_is_put_aside(path, content):
    path.write_bytes(content)
    file = HistoryFile(path, NOW)
    assert "history.db-2026-01-01T000000" in file.aside
    assert path.with_name("history.db-2026-01-01T000000").read_bytes() == content
    file.put([row(1)], **FOR_EVER)
    assert numbers(file.ask(HistoryQuery())) == [1]
    file.close()


def test_one_of_another_release_is_put_aside(path):
    HistoryFile(path, NOW).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    file = HistoryFile(path, NOW)
    assert "its version is 9" in file.aside
    file.close()


def test_a_row_that_is_damaged_is_left_out(path, file):
    file.put([row(1), row(2)], **FOR_EVER)
    file.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET body = x'00' WHERE uid = 'u00001'")
    connection.close()
    again = HistoryFile(path, NOW)
    assert numbers(again.ask(HistoryQuery())) == [2]
    again.close()


def test_it_belongs_to_one_at_a_time(path, file):
    file.put([row(1)], **FOR_EVER)
    with pytest.raises(HistoryError, match="locked"):
        HistoryFile(path, NOW)


def test_a_full_disk_is_named_with_the_place_to_free(file, path):
    file._connection.execute("PRAGMA max_page_count=1")  # SQLite's error for a full disk
    problem = f"cannot be written: .* is full; free some space there .df -h {path.parent}"
    with pytest.raises(HistoryError, match=problem):
        file.put([row(number, name="x" * 5_000) for number in range(9)], **FOR_EVER)
