"""The table of decisions: bounded in bytes, and whatever happens to its file stops nobody."""

import sqlite3
from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.ours.decisions import Decision
from muster.cluster.store.decisions import FILE, DecisionFile, DecisionFileError, DecisionQuery

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLENTY = 1 << 30


def decision(number, job="default/j"):
    return Decision(NOW, "Placed", job, attempt=number)


@pytest.fixture
def path(tmp_path):
    return tmp_path / FILE


@pytest.fixture
def file(path):
    opened = DecisionFile(path, NOW)
    yield opened
    opened.close()


def numbers(found):
    return [msgspec.json.decode(body, type=Decision).attempt for body in found.bodies]


def test_the_newest_come_first_of_the_job_that_is_asked_for(file):
    file.put([decision(1), decision(2, "lab/j"), decision(3, "default/k"), decision(4)], PLENTY)
    assert numbers(file.ask(DecisionQuery())) == [4, 3, 2, 1]
    assert numbers(file.ask(DecisionQuery(namespace="default"))) == [4, 3, 1]
    assert numbers(file.ask(DecisionQuery(namespace="default", name="j"))) == [4, 1]
    assert numbers(file.ask(DecisionQuery(namespace="none"))) == []


def test_a_cut_answer_goes_on_where_it_ended(file):
    file.put([decision(number) for number in range(10)], PLENTY)
    first = file.ask(DecisionQuery(limit=6))
    assert numbers(first) == [9, 8, 7, 6, 5, 4]
    rest = file.ask(DecisionQuery(limit=6, before=first.more))
    assert (numbers(rest), rest.more) == ([3, 2, 1, 0], None)
    assert file.ask(DecisionQuery(limit=0)).bodies == ()


def test_the_oldest_go_once_there_are_too_many_bytes_and_the_file_stays_small(file, path):
    for start in range(0, 10_000, 100):
        file.put([decision(number) for number in range(start, start + 100)], 100_000)
    kept = numbers(file.ask(DecisionQuery()))
    assert kept == list(range(9_999, 9_999 - len(kept), -1))
    assert 300 < len(kept) < 700
    file.close()
    assert path.stat().st_size < 400_000
    again = DecisionFile(path, NOW)
    again.put([decision(10_000)], 100_000)
    assert len(numbers(again.ask(DecisionQuery()))) in range(300, 701)
    again.close()


def test_without_room_nothing_is_kept(file):
    file.put([decision(1), decision(2)], 0)
    assert numbers(file.ask(DecisionQuery())) == []


def test_a_reopened_file_has_what_was_written(file, path):
    file.put([decision(1)], PLENTY)
    file.close()
    again = DecisionFile(path, NOW)
    assert numbers(again.ask(DecisionQuery())) == [1]
    again.close()


def test_a_damaged_row_is_left_out(file, path):
    file.put([decision(1), decision(2)], PLENTY)
    file._connection.execute("UPDATE decisions SET body = x'78' WHERE serial = 1")
    assert numbers(file.ask(DecisionQuery())) == [2]


@pytest.mark.parametrize("content", [b"no database at all, and longer than a header" * 50])
def test_a_file_that_cannot_be_used_is_set_aside(path, content):
    path.write_bytes(content)
    opened = DecisionFile(path, NOW)
    assert "decisions.db-2026-01-01T000000 now, and a new record of decisions begins" in opened.aside
    assert path.with_name(f"{FILE}-2026-01-01T000000").read_bytes() == content
    opened.close()


def test_a_file_of_another_release_is_set_aside(path):
    DecisionFile(path, NOW).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    opened = DecisionFile(path, NOW)
    assert "its version is 7, this release knows 1" in opened.aside
    opened.close()


def test_a_folder_in_its_place_is_an_error(path):
    path.mkdir()
    with pytest.raises(DecisionFileError, match=r"cannot use .*decisions\.db"):
        DecisionFile(path, NOW)


def test_a_full_disk_is_named_with_the_place_to_free(file, path):
    file._connection.execute("PRAGMA max_page_count=1")  # SQLite's error for a full disk
    problem = f"cannot be written: .* is full; free some space there .df -h {path.parent}"
    with pytest.raises(DecisionFileError, match=problem):
        file.put([decision(number, "default/" + "x" * 5_000) for number in range(9)], PLENTY)
