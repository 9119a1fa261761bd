"""Logs: what the shim writes, and what readers make of it."""

import asyncio
import contextlib
import itertools
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.nodeconnection import LogOptions
from muster.cluster.nodes import shims
from muster.cluster.nodes.container.logs import Logs, Reader, Rendering, read_tail
from muster.cluster.nodes.disk.storage import PodRecord, Storage
from muster.cluster.nodes.shim.log import LINE_BYTES, Log, Stream
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.containerlogs import Missing, read_raw, record, split_runs


def line(number, text="x", tag="F", stream="stdout"):
    return f"2026-01-01T12:00:{number:02}.000000000Z {stream} {tag} {text}\n".encode()


@given(st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"\n")), max_size=8))
def test_a_stream_is_cut_into_lines_wherever_it_was_torn(pieces):
    stream = Stream(b"stdout")
    cut = [part for piece in pieces for part in stream.cut(piece, 0)] + stream.end()
    assert b"".join(text for _, text in cut) == b"".join(pieces)
    assert all(text.endswith(b"\n") == (tag == b"F") for tag, text in cut)


def test_long_lines_become_partial_ones():
    stream = Stream(b"stdout")
    text = bytes(range(65, 91)) * 2000
    cut = stream.cut(b"one\n\n" + text + b"\ntwo\nthree\nrest", 0)
    assert [tag for tag, _ in cut] == [b"F", b"P", b"P", b"P", b"F"]
    assert all(len(part) <= LINE_BYTES for _, part in cut)
    assert [b"".join(part for _, part in cut), cut[0][1]] == [b"one\n\n" + text + b"\ntwo\nthree\n", b"one\n\n"]
    assert cut[4][1].endswith(b"\ntwo\nthree\n")
    assert stream.end() == [(b"P", b"rest")]


@pytest.mark.parametrize(
    ("pieces", "due"),
    [
        ([], None),
        ([(0, b"whole\n")], None),
        ([(0, b"10%")], 0.02),
        ([(0, b"10%"), (0.015, b"\r20%")], 0.005),  # who writes on and on does not put it off
        ([(0, b"10%"), (0.015, b"\n")], None),
        ([(0, b"10%"), (0.015, b"\nnext")], 0.02),
        ([(0, b"10%"), (1, b"x" * LINE_BYTES)], 0.02),
        ([(0, b"10%"), (0.5, b"\r20%")], 0),
    ],
)
def test_an_unfinished_line_is_held_back_for_a_moment(pieces, due):
    stream, now = Stream(b"stderr"), 0
    for now, data in pieces:
        stream.cut(data, now)
    assert stream.due(now) == (pytest.approx(due) if due is not None else None)
    stream.end()
    assert stream.due(now) is None


def test_a_line_that_stays_unfinished_is_logged_in_parts(place, monkeypatch):
    descriptor, directory = place
    log, stream, other = Log(descriptor, 1 << 20, 2, 0), Stream(b"stderr"), Stream(b"stdout")
    bar, writer = os.pipe()
    seen = []
    for now, data in [(1, b"10%"), (2, b"\r20%"), (3, b"\rdone\nnext\n")]:
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        os.write(writer, data)
        log.copy(bar, stream)
        monkeypatch.setattr(time, "monotonic", lambda now=now: now + 0.5)
        assert log.flush([other, stream]) is None
        seen.append(Rendering().feed((directory / "log.0.0").read_bytes()))
    os.close(bar)
    os.close(writer)
    assert seen == [b"10%", b"10%\r20%", b"10%\r20%\rdone\nnext\n"]


@pytest.fixture
def place(tmp_path):
    descriptor = os.open(tmp_path, os.O_PATH)
    yield descriptor, tmp_path
    os.close(descriptor)


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


def test_lost_lines_are_counted_and_told_when_there_is_room_again(place, monkeypatch):
    descriptor, directory = place
    log = Log(descriptor, 1000, 3, 0)
    log.write(b"stdout", [(b"F", b"one\n")])
    write = os.write

    def torn(target, data):
        if len(data) > 10:
            return write(target, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", torn)
    log.write(b"stdout", [(b"F", b"two\nthree\n")])
    assert (log.lost, log.untold, log.trouble) == (1, 1, "no space left on device")
    monkeypatch.undo()
    log.write(b"stdout", [(b"F", b"four\n")])
    assert (log.lost, log.untold) == (1, 0)
    rendered = Rendering().feed((directory / "log.0.0").read_bytes())
    assert rendered.splitlines()[0:2] == [b"one", b"two"]
    assert rendered.endswith(b"[muster: 1 lines are missing here: no space left on device]\nfour\n")


@pytest.mark.parametrize(
    ("since", "timestamps", "text"),
    [
        (b"", False, b"a\nb c \npart-end\n"),
        (b"2026-01-01T12:00:02", False, b"b c \npart-end\n"),
        (b"2026-01-01T12:00:09", False, b""),
        (b"2026-01-01T12:00:04", True, b"2026-01-01T12:00:04.000000000Z end\n"),
    ],
)
def test_lines_as_users_see_them(since, timestamps, text):
    block = line(1, "a") + line(2, "b c ") + line(3, "part-", "P") + b"torn\n" + line(4, "end", stream="stderr")
    assert Rendering(since, timestamps=timestamps).feed(block) == text


def test_a_carriage_return_ends_no_line():
    bar = b"10%\r20%\r100% done"
    block = b"2026-01-01T12:00:01.000000000Z stderr F " + bar + b"\n" + line(2, "next")
    assert Rendering().feed(block) == bar + b"\nnext\n"
    stamped = Rendering(timestamps=True).feed(block)
    assert stamped == b"2026-01-01T12:00:01.000000000Z " + bar + b"\n2026-01-01T12:00:02.000000000Z next\n"


def test_a_line_in_parts_has_one_stamp_over_blocks_too():
    rendering = Rendering(timestamps=True)
    blocks = [line(1, "a", "P") + line(2, "b", "P"), line(3, "c", "P"), line(4, "d") + line(5, "e")]
    assert b"".join(map(rendering.feed, blocks)) == (
        b"2026-01-01T12:00:01.000000000Z abcd\n2026-01-01T12:00:05.000000000Z e\n"
    )


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
    monkeypatch.setattr("muster.cluster.nodes.container.logs._BLOCK", 64)
    (tmp_path / "log.0.0").write_bytes(line(1, "a") + line(2, "b") + line(3, "c1", "P"))
    (tmp_path / "log.1.6").write_bytes(line(4, "c2") + line(5, "d") + line(6, "e1", "P") + line(7, "e2", end) + b"torn")
    reader = Reader(tmp_path)
    reader.seek(count)
    read = b"".join(map(Rendering().feed, reader.read()))
    reader.close()
    assert read == text + (b"\n" if text and end == "F" else b"")


def test_the_tail_of_a_bar_is_not_its_whole_history(tmp_path):
    states = [f"\r{number:99}" for number in range(1000)]
    (tmp_path / "log.0.0").write_bytes(line(0, "before") + b"".join(line(1, state, "P") for state in states))
    counts = [read_tail(tmp_path, lines, 1 << 20).count("\r") for lines in range(9)]
    assert counts == [0, 163, 326, 489, 652, 815, 978, 1000, 1000]
    assert [read_tail(tmp_path, lines, 1 << 20).startswith("before") for lines in (7, 8)] == [False, True]


def test_the_tail_of_a_long_file(tmp_path):
    (tmp_path / "log.0.0").write_bytes(b"".join(line(n % 60, f"{n} {'x' * 300}") for n in range(2000)))
    assert [text.split()[0] for text in read_tail(tmp_path, 500, 1 << 20).splitlines()] == [
        str(n) for n in range(1500, 2000)
    ]
    assert len(read_tail(tmp_path, 80, 2048)) == 2048


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


def test_the_tail_of_a_file_of_empty_lines_ends_somewhere(tmp_path, monkeypatch):
    monkeypatch.setattr("muster.cluster.nodes.container.logs._MOST_LINES_OF_A_FILE", 1000)
    (tmp_path / "log.0.0").write_bytes(b"\n" * (1 << 20))
    walked: list[bytes] = []
    monkeypatch.setattr("muster.cluster.nodes.container.logs.ends_line", walked.append)
    assert read_tail(tmp_path, 80, 2048) == ""
    assert len(walked) == 1000


def test_others_take_turns_while_a_tail_walks_back_over_empty_lines(world, monkeypatch):
    monkeypatch.setattr("muster.cluster.nodes.container.logs._MOST_LINES_OF_A_FILE", 10_000)
    directory = world.attempt(0)
    for number in range(9):
        (directory / f"log.{number}.0").write_bytes(b"\n" * 20_000)
    walked = [0]  # lines in each turn of the loop

    def count_line(line):
        walked[-1] += 1

    monkeypatch.setattr("muster.cluster.nodes.container.logs.ends_line", count_line)

    async def read_beside_another():
        reading = asyncio.create_task(world.read(tail_lines=10))
        while not reading.done():
            await asyncio.sleep(0)
            walked.append(0)
        return await reading

    run_virtual(read_beside_another())
    assert sum(walked) == 9 * 10_000
    assert max(walked) <= 1000


def test_of_very_many_files_a_reader_opens_few_and_pauses_between_them(tmp_path):
    for number in range(1500):
        (tmp_path / f"log.{number}.0").write_bytes(line(0, str(number)))
    reader = Reader(tmp_path)
    reader.seek(None)
    blocks = [block for block in reader.read() if not isinstance(block, Missing)]
    reader.close()
    assert [len(blocks), blocks.count(b"")] == [10 + 18, 18]
    assert len([text for text in read_tail(tmp_path, 80, 2048).splitlines() if text.isdigit()]) == 10


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


@pytest.fixture
def world(tmp_path, make_pod, monkeypatch):
    """A pod with a container whose log can be written, and whose shim lives as long as we say."""
    storage = Storage(tmp_path / "node")
    pod = make_pod()
    place = storage.of(pod.metadata.uid)
    place.write(PodRecord("ns", "p", "uid-1"))

    class World:
        def __init__(self):
            self.alive = True
            self.pod = pod

        def attempt(self, number, claimed=True):
            directory = place.begin("main", number)
            if claimed:
                (directory / "state").write_text('{"claimed":1,"started":1}')
            return directory

        async def read(self, **options):
            chunks = Logs(storage, VirtualClock()).logs(self.pod, LogOptions(container="main", **options))
            return b"".join([chunk async for chunk in chunks])

    world = World()
    monkeypatch.setattr(shims, "is_alive", lambda directory: world.alive)
    return world


def test_the_newest_attempt_is_read_and_the_one_before_on_demand(world):
    for number in (0, 1):
        (world.attempt(number) / "log.0.0").write_bytes(line(1, f"attempt-{number}"))
    world.attempt(2, claimed=False)
    assert run_virtual(world.read()) == b"attempt-1\n"
    assert run_virtual(world.read(previous=True)) == b"attempt-0\n"


def test_between_two_runs_the_last_one_is_also_the_previous_one(world, make_pod):
    ended = {"terminated": {"exitCode": 1}}
    status = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    world.pod = make_pod(status={"containerStatuses": [status]})
    (world.attempt(0) / "log.0.0").write_bytes(line(1, "crashed"))
    assert run_virtual(world.read()) == run_virtual(world.read(previous=True)) == b"crashed\n"
    with pytest.raises(ApiError, match="not found"):
        run_virtual(world.read(previous=True, before_newest=True))


def test_a_limit_of_bytes(world):
    (world.attempt(0) / "log.0.0").write_bytes(line(1, "hello"))
    assert run_virtual(world.read(limit_bytes=3)) == b"hel"


def test_following_ends_with_the_container_and_has_its_last_words(world):
    directory = world.attempt(0)

    async def follow():
        reading = asyncio.create_task(world.read(follow=True))
        for number in range(5):
            with (directory / "log.0.0").open("ab") as file:
                file.write(line(number, str(number)))
            await asyncio.sleep(0.25)
        with (directory / "log.0.0").open("ab") as file:
            file.write(line(9, "last words"))
        world.alive = False
        return await reading

    assert run_virtual(follow()) == b"0\n1\n2\n3\n4\nlast words\n"


def test_a_thousand_followers_of_a_namespace_check_more_rarely_and_others_as_soon_as_ever(
    world, make_pod, tmp_path, monkeypatch
):
    storage = Storage(tmp_path / "node")
    storage.of("uid-2").write(PodRecord("other", "p", "uid-2"))
    crowded, lonely = world.attempt(0), storage.of("uid-2").begin("main", 0)
    (lonely / "state").write_text('{"claimed":1,"started":1}')
    checks: Counter[Path] = Counter()

    def check(directory: Path) -> bool:
        checks[directory] += 1
        return bool(world.alive)

    monkeypatch.setattr(shims, "is_alive", check)

    async def follow():
        logs = Logs(storage, VirtualClock())

        async def read(pod):
            return b"".join([chunk async for chunk in logs.logs(pod, LogOptions(container="main", follow=True))])

        crowd = [asyncio.create_task(read(world.pod)) for _ in range(1000)]
        other = asyncio.create_task(read(make_pod(namespace="other", uid="uid-2")))
        await asyncio.sleep(1)  # all of them have begun
        checks.clear()
        await asyncio.sleep(10)
        crowd_checks, other_checks = checks[crowded], checks[lonely]
        for one in crowd[10:]:
            one.cancel()
        await asyncio.wait(crowd[10:])
        await asyncio.sleep(1)
        checks.clear()
        await asyncio.sleep(10)
        few_checks = checks[crowded]
        world.alive = False
        await asyncio.gather(other, *crowd[:10])
        return crowd_checks, other_checks, few_checks

    crowd, other, few = run_virtual(follow())
    assert (crowd, other, few) == (
        pytest.approx(20_000, rel=0.1),  # 2,000 a second at most
        pytest.approx(200, rel=0.1),  # every 50 ms
        pytest.approx(10 * 200, rel=0.1),
    )


def test_since_seconds_counts_from_now(world):
    start = VirtualClock()._start
    old = start.strftime("%Y-%m-%dT%H:%M:%S.000000000Z").encode()
    (world.attempt(0) / "log.0.0").write_bytes(old + b" stdout F old\n" + old[:17] + b"50.000000000Z stdout F new\n")

    async def read():
        await asyncio.sleep(60)
        return await world.read(since_seconds=30)

    assert run_virtual(read()) == b"new\n"


@pytest.mark.parametrize(
    ("previous", "message"),
    [
        (False, 'container "main" in pod "p" is waiting to start: ContainerCreating'),
        (True, 'previous terminated container "main" in pod "p" not found'),
    ],
)
def test_without_a_log_there_is_a_reason(world, previous, message):
    with pytest.raises(ApiError) as caught:
        run_virtual(world.read(previous=previous))
    assert (caught.value.code, str(caught.value)) == (400, message)


def test_a_container_that_has_ended_does_not_wait_to_start_if_its_log_was_lost(world, make_pod):
    status = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    world.pod = make_pod(status={"containerStatuses": [status]})
    with pytest.raises(ApiError, match='container "main" in pod "p" has ended, and has no log here') as caught:
        run_virtual(world.read())
    assert caught.value.code == 400


@pytest.mark.parametrize("follow", [False, True])
def test_what_the_log_had_no_room_to_tell_is_told_at_its_end(world, follow):
    """As by an exit record; the container printed on, and the disk was full until it ended."""
    directory, world.alive = world.attempt(0), False
    (directory / "log.0.0").write_bytes(line(1, "landed"))
    record = {"claimed": 1, "started": 1, "finished": 1_700_000_000_000_000_007, "lost": 5, "untold": 3}
    (directory / "state").write_text(json.dumps(record))
    told = b"[muster: 3 lines are missing here: they could not be written]\n"
    assert run_virtual(world.read(follow=follow)) == b"landed\n" + told
    stamped = run_virtual(world.read(follow=follow, timestamps=True)).splitlines()[-1]
    assert stamped == b"2023-11-14T22:13:20.000000007Z " + told.rstrip()


def test_stamps_are_of_a_fixed_length_and_never_go_back(place, monkeypatch):
    descriptor, directory = place
    log = Log(descriptor, 1000, 2, 0)
    for now in (1_700_000_000_000_000_001, 1_600_000_000_000_000_000, 1_700_000_000_000_000_002):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        log.write(b"stdout", [(b"F", b"x\n")])
    stamps = [run.stamp.decode() for run in split_runs((directory / "log.0.0").read_bytes()) for _ in range(run.lines)]
    assert stamps == [f"2023-11-14T22:13:20.00000000{digit}Z" for digit in (1, 1, 2)]


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
