"""Files of a log: what the shim writes, and how a reader reads them over rotations."""

import contextlib
import itertools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cluster.nodes.container.conftest import line

from muster.cluster.nodes.container.logfiles import Reader
from muster.cluster.nodes.container.logs import Rendering, read_tail
from muster.cluster.nodes.shim.log import Log, Stream
from muster.runtime.containerlogs import HEAD_BYTES, Missing, read_raw, record, split_runs


def test_files_are_rotated_and_the_oldest_forgotten(place):
    descriptor, directory = place
    log = Log(descriptor, 100, 3, 0)
    for number in range(20):
        log.write(b"stdout", [(b"F", b"%02d\n" % number)])
    # Three lines a file, each of three bytes of text: the names say how much was before.
    assert sorted(path.name for path in directory.iterdir()) == ["log.4.36", "log.5.45", "log.6.54"]
    reader = Reader(directory)
    reader.seek(None)
    assert read_all(reader) == list(range(12, 20))
    assert (reader.dropped, log.lost) == (36, 0)


def fill(directory: Path, files):
    """Write the files of a log, oldest first."""
    for index, numbers in enumerate(files):
        (directory / f"log.{index}.{index}").write_bytes(b"".join(line(n, str(n)) for n in numbers))


def read_all(reader):
    return [int(part.split()[-1]) for block in reader.read() for part in block.splitlines()]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 100, None])
def test_the_tail_reaches_back_over_rotations(tmp_path, count):
    fill(tmp_path, [[1, 2], [3], [], [4, 5, 6]])
    reader = Reader(tmp_path)
    reader.seek(count)
    assert read_all(reader) == [1, 2, 3, 4, 5, 6][max(6 - count, 0) if count is not None else 0 :]
    reader.close()


@pytest.mark.parametrize("end", ["F", "P"])
@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, b""),
        (1, b"e1e2"),
        (2, b"d\ne1e2"),
        (3, b"c2\nd\ne1e2"),  # the first line shown may have begun in an earlier file
        (4, b"b\nc1c2\nd\ne1e2"),
        (9, b"a\nb\nc1c2\nd\ne1e2"),
    ],
)
def test_the_tail_counts_a_line_in_parts_once(tmp_path, monkeypatch, count, text, end):
    monkeypatch.setattr("muster.cluster.nodes.container.logfiles._BLOCK", 64)
    (tmp_path / "log.0.0").write_bytes(line(1, "a") + line(2, "b") + line(3, "c1", "P"))
    (tmp_path / "log.1.6").write_bytes(line(4, "c2") + line(5, "d") + line(6, "e1", "P") + line(7, "e2", end) + b"torn")
    reader = Reader(tmp_path)
    reader.seek(count)
    read = b"".join(map(Rendering().feed, reader.read()))
    reader.close()
    assert read == text + (b"\n" if text and end == "F" else b"")


@pytest.mark.parametrize(
    ("count", "texts"),
    [
        (1, ["oh"]),
        (2, ["unended", "oh"]),
        (3, ["b", "unended", "oh"]),
        (4, ["a", "b", "unended", "oh"]),
    ],
)
def test_the_last_line_of_a_stream_counts_without_its_end_though_the_other_stream_wrote_later(tmp_path, count, texts):
    parts = line(1, "a"), line(2, "b"), line(3, "unended", "P"), line(4, "oh", stream="stderr")
    (tmp_path / "log.0.0").write_bytes(b"".join(parts))
    reader = Reader(tmp_path)
    reader.seek(count)
    lines = b"".join(block for block in reader.read() if isinstance(block, bytes)).splitlines()
    reader.close()
    assert [one[HEAD_BYTES:].decode() for one in lines] == texts


def test_a_file_without_lines_is_read_in_steps_and_not_beyond_what_a_log_can_have(tmp_path):
    """Between two blocks, the server serves its other clients."""
    with (tmp_path / "log.0.0").open("wb") as file:
        file.truncate(20 << 30)
    for lines in (None, 3):
        reader = Reader(tmp_path)
        reader.seek(lines)
        assert list(reader.read()) == [b""] * 128  # of 256 KiB each
        reader.close()
    assert read_tail(tmp_path, 80, 2048) == ""


def test_the_tail_of_a_file_of_empty_lines_ends_somewhere(tmp_path):
    """A file of 32 MiB has room for that many lines with a time; a user of the container may write shorter ones."""
    (tmp_path / "log.0.0").write_bytes(line(0, "before"))
    (tmp_path / "log.1.7").write_bytes(b"\n" * (1 << 20))
    with contextlib.closing(Reader(tmp_path)) as reader:
        reader.seek(80)
        assert sum(len(block) for block in reader.read() if isinstance(block, bytes)) == (32 << 20) // 40


def test_the_end_of_a_log_is_found_in_its_newest_file(tmp_path, bytes_read):
    """A client that attaches to a container follows its log from there."""
    for number in range(10):
        (tmp_path / f"log.{number}.0").write_bytes(b"\n" * (1 << 20))
    with contextlib.closing(Reader(tmp_path)) as reader:
        reader.seek(0)
        assert list(reader.read()) == []
    assert sum(bytes_read) <= 1 << 18


def test_of_very_many_files_a_reader_opens_few_and_pauses_between_them(tmp_path):
    for number in range(1500):
        (tmp_path / f"log.{number}.0").write_bytes(line(0, str(number)))
    reader = Reader(tmp_path)
    reader.seek(None)
    blocks = [block for block in reader.read() if not isinstance(block, Missing)]
    reader.close()
    assert [len(blocks), blocks.count(b"")] == [10 + 21, 21]
    assert len([text for text in read_tail(tmp_path, 80, 2048).splitlines() if text.isdigit()]) == 2


def test_a_reader_loses_nothing_over_rotations(tmp_path):
    """Write, rotate and read in every order that a slow or a fast reader may meet."""
    for pattern in ("wrwrwr", "wwrrww", "wRwR", "wRRw", "wrRwRrw", "wRrwRr", "RwRwr"):
        directory = tmp_path / pattern
        directory.mkdir()
        descriptor = os.open(directory, os.O_PATH)
        log = Log(descriptor, 1 << 20, 8, 0)
        reader, seen, number = Reader(directory), [], 0
        for step in pattern + "r":
            if step == "w":
                number += 1
                log.write(b"stdout", [(b"F", b"%d\n" % number)])
            elif step == "R":
                log._size = 1 << 21  # the next line goes to a new file
                number += 1
                log.write(b"stdout", [(b"F", b"%d\n" % number)])
            else:
                seen += read_all(reader)
        assert seen == list(range(1, number + 1)), pattern
        reader.close()
        os.close(descriptor)


def write_file_of(log, number):
    """One line, which fills a file."""
    assert log.pause() == 0
    log.write(b"stdout", [(b"F", b"%d\n" % number)])


def test_the_oldest_file_waits_for_its_reader(place):
    """For as long as patience lasts; then it goes, and the reader learns how much is missing at its place."""
    descriptor, directory = place
    log = Log(descriptor, 1, 2, patience_seconds=-1)
    reader = Reader(directory)
    for number in (1, 2):
        write_file_of(log, number)
    [block] = itertools.islice(reader.read(), 1)
    assert log.pause() > 0
    assert log.pause() > 0
    following = (part for part in reader.read() if part)
    assert [block, next(following)] == [block_of(directory, 0), block_of(directory, 1)]
    write_file_of(log, 3)
    assert log.pause() > 0
    impatient = Log(descriptor, 1, 2, patience_seconds=0)
    impatient._files, impatient._begun, impatient._text_bytes = log._files, log._begun, log._text_bytes
    impatient._size = 1
    for number in (4, 5, 6):
        write_file_of(impatient, number)
    assert [part if isinstance(part, Missing) else Rendering().feed(part) for part in following] == [
        Missing(4),
        b"5\n",
        b"6\n",
    ]
    reader.close()
    assert impatient.pause() == 0


def block_of(directory, number):
    [path] = directory.glob(f"log.{number}.*")
    return path.read_bytes()


def test_who_is_killed_waits_for_nobody(place):
    descriptor, directory = place
    with contextlib.closing(Reader(directory)) as reader:
        log = Log(descriptor, 1, 1, patience_seconds=-1)
        write_file_of(log, 1)
        reader.seek(None)
        assert log.pause() > 0
        pipe, writer = os.pipe()
        os.write(writer, b"2\n3\nend")
        os.close(writer)
        log.drain(pipe, Stream(b"stdout"))
        os.close(pipe)
        assert b"".join(map(Rendering().feed, reader.read())) == b"1\n2\n3\nend"


def test_a_torn_file_does_not_spoil_the_next(tmp_path):
    (tmp_path / "log.0.0").write_bytes(line(1, "whole") + b"2026-01-01T12:00:02.000000000Z stdout F torn")
    (tmp_path / "log.1.6").write_bytes(line(3, "next"))
    with contextlib.closing(Reader(tmp_path)) as reader:
        assert b"".join(map(Rendering().feed, reader.read())) == b"whole\ntorn\nnext\n"


@given(
    st.lists(st.tuples(st.sampled_from([b"stdout", b"stderr"]), st.binary(max_size=60), st.booleans()), max_size=12),
    st.integers(1, 200),
)
def test_what_is_written_is_what_is_read(pieces, limit_bytes):
    """Byte for byte for each stream, over rotations, wherever an unfinished line is logged, however it is served."""
    with tempfile.TemporaryDirectory() as name:
        descriptor = os.open(name, os.O_PATH)
        log, streams = (
            Log(descriptor, limit_bytes, 1000, -1),
            {b"stdout": Stream(b"stdout"), b"stderr": Stream(b"stderr")},
        )
        for stream, data, is_due in pieces:
            log.write(stream, streams[stream].cut(data.replace(b"\0", b"\n"), 0))
            if is_due:
                log.write(stream, streams[stream].end())
        for stream in streams.values():
            log.write(stream.name, stream.end())
        os.close(descriptor)
        with contextlib.closing(Reader(Path(name))) as reader:
            blocks = [block for block in reader.read() if isinstance(block, bytes)]
    seen = [run for block in blocks for run in split_runs(block)]
    assert [part for block in blocks for part in read_raw(record(Missing(3)) + block)] == [
        part for block in blocks for part in (Missing(3), *split_runs(block))
    ]
    for stream in streams:
        written = b"".join(data.replace(b"\0", b"\n") for name, data, _ in pieces if name == stream)
        assert b"".join(run.text for run in seen if run.stream == stream) == written
