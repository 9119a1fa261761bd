"""Logs: what the shim writes, and what readers make of it."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.status import ApiError
from muster.cluster.apiserver.podlogs import LogOptions
from muster.cluster.nodes import shims
from muster.cluster.nodes.logs import Logs, Reader, Rendering, tail
from muster.cluster.nodes.shim.log import LINE_BYTES, Log, Stream
from muster.cluster.nodes.storage import Storage
from muster.runtime.clock import VirtualClock, run_virtual


def line(number, text="x", tag="F", stream="stdout"):
    return f"2026-01-01T12:00:{number:02}.000000000Z {stream} {tag} {text}\n".encode()


@given(st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"\n")), max_size=8))
def test_a_stream_is_cut_into_lines_wherever_it_was_torn(pieces):
    stream = Stream(b"stdout")
    cut = [part for piece in pieces for part in stream.lines(piece)] + stream.end()
    whole = b"".join(pieces)
    assert b"".join(text + (b"\n" if tag == b"F" else b"") for tag, text in cut) == whole
    assert [tag for tag, _ in cut].count(b"F") == whole.count(b"\n")


def test_long_lines_become_partial_ones():
    stream = Stream(b"stdout")
    text = bytes(range(65, 91)) * 2000
    cut = stream.lines(text + b"\nrest")
    assert [tag for tag, _ in cut] == [b"P", b"P", b"P", b"F"]
    assert all(len(part) <= LINE_BYTES for _, part in cut)
    assert b"".join(part for _, part in cut) == text
    assert stream.end() == [(b"P", b"rest")]


@pytest.fixture
def place(tmp_path):
    descriptor = os.open(tmp_path, os.O_PATH)
    yield descriptor, tmp_path
    os.close(descriptor)


def test_files_are_rotated_and_the_oldest_forgotten(place):
    descriptor, directory = place
    log = Log(descriptor, 100, 3)
    for number in range(20):
        log.write(b"stdout", [(b"F", b"%02d" % number)])
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["log", "log.1", "log.2"]
    texts = [
        text.split()[-1] for name in ("log.2", "log.1", "log") for text in (directory / name).read_text().splitlines()
    ]
    assert texts == [f"{number:02}" for number in range(20 - len(texts), 20)]
    assert log.lost == 0


def test_lost_lines_are_counted_and_told_when_there_is_room_again(place, monkeypatch):
    descriptor, directory = place
    log = Log(descriptor, 1000, 3)
    log.write(b"stdout", [(b"F", b"one")])
    write = os.write

    def torn(target, data):
        if len(data) > 10:
            return write(target, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", torn)
    log.write(b"stdout", [(b"F", b"two"), (b"F", b"three")])
    assert (log.lost, log.trouble) == (1, "no space left on device")
    monkeypatch.undo()
    log.write(b"stdout", [(b"F", b"four")])
    rendered = Rendering().feed((directory / "log").read_bytes())
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
    for age, numbers in zip(range(len(files) - 1, -1, -1), files, strict=True):
        (directory / (f"log.{age}" if age else "log")).write_bytes(b"".join(line(n, str(n)) for n in numbers))


def read_all(reader):
    return [int(part.split()[-1]) for block in reader.read() for part in block.splitlines()]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 100, None])
def test_the_tail_reaches_back_over_rotations(tmp_path, count):
    fill(tmp_path, [[1, 2], [3], [], [4, 5, 6]])
    reader = Reader(tmp_path)
    reader.seek(count)
    assert read_all(reader) == [1, 2, 3, 4, 5, 6][max(6 - count, 0) if count is not None else 0 :]
    reader.close()


def test_the_tail_of_a_long_file(tmp_path):
    (tmp_path / "log").write_bytes(b"".join(line(n % 60, f"{n} {'x' * 300}") for n in range(2000)))
    assert [text.split()[0] for text in tail(tmp_path, 500, 1 << 20).splitlines()] == [
        str(n) for n in range(1500, 2000)
    ]
    assert len(tail(tmp_path, 80, 2048)) == 2048


def test_a_reader_loses_nothing_over_rotations(tmp_path):
    """Write, rotate and read in every order that a slow or a fast reader may meet."""
    for pattern in ("wrwrwr", "wwrrww", "wRwR", "wRRw", "wrRwRrw", "wRrwRr", "RwRwr"):
        directory = tmp_path / pattern
        directory.mkdir()
        descriptor = os.open(directory, os.O_PATH)
        log = Log(descriptor, 1 << 20, 8)
        reader, seen, number = Reader(directory), [], 0
        for step in pattern + "r":
            if step == "w":
                number += 1
                log.write(b"stdout", [(b"F", b"%d" % number)])
            elif step == "R":
                log._size = 1 << 21  # the next line goes to a new file
                number += 1
                log.write(b"stdout", [(b"F", b"%d" % number)])
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
    from muster.cluster.nodes.storage import PodRecord

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
        (world.attempt(number) / "log").write_bytes(line(1, f"attempt-{number}"))
    world.attempt(2, claimed=False)
    assert run_virtual(world.read()) == b"attempt-1\n"
    assert run_virtual(world.read(previous=True)) == b"attempt-0\n"


def test_between_two_runs_the_last_one_is_also_the_previous_one(world, make_pod):
    ended = {"terminated": {"exitCode": 1}}
    status = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    world.pod = make_pod(status={"containerStatuses": [status]})
    (world.attempt(0) / "log").write_bytes(line(1, "crashed"))
    assert run_virtual(world.read()) == run_virtual(world.read(previous=True)) == b"crashed\n"
    with pytest.raises(ApiError, match="not found"):
        run_virtual(world.read(previous=True, before_newest=True))


def test_a_limit_of_bytes(world):
    (world.attempt(0) / "log").write_bytes(line(1, "hello"))
    assert run_virtual(world.read(limit_bytes=3)) == b"hel"


def test_following_ends_with_the_container_and_has_its_last_words(world):
    directory = world.attempt(0)

    async def follow():
        reading = asyncio.create_task(world.read(follow=True))
        for number in range(5):
            with (directory / "log").open("ab") as file:
                file.write(line(number, str(number)))
            await asyncio.sleep(0.25)
        with (directory / "log").open("ab") as file:
            file.write(line(9, "last words"))
        world.alive = False
        return await reading

    assert run_virtual(follow()) == b"0\n1\n2\n3\n4\nlast words\n"


def test_since_seconds_counts_from_now(world):
    start = VirtualClock()._start
    old = start.strftime("%Y-%m-%dT%H:%M:%S.000000000Z").encode()
    (world.attempt(0) / "log").write_bytes(old + b" stdout F old\n" + old[:17] + b"50.000000000Z stdout F new\n")

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


def test_stamps_are_of_a_fixed_length():
    from muster.cluster.nodes.shim.log import _stamp

    assert len(_stamp()) == 30
    assert _stamp()[:4] == time.strftime("%Y", time.gmtime()).encode()
