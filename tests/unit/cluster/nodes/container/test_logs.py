"""Logs: what the shim writes, and what readers make of it."""

import asyncio
import itertools
import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cluster.nodes.container.conftest import line

from muster.api.status import ApiError
from muster.cluster.nodeconnection import LogOptions
from muster.cluster.nodes import shims
from muster.cluster.nodes.container.logs import Logs, Rendering, read_tail
from muster.cluster.nodes.disk.storage import PodRecord, Storage
from muster.cluster.nodes.shim.log import LINE_BYTES, Log, Stream
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.containerlogs import split_runs


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


@pytest.mark.parametrize("between", [b"\n", b"x\n", b"torn" * 9 + b"\n", b"x" * 60 + b"\n"])
def test_lines_without_a_time_are_left_out_however_many_they_are(between):
    block = line(1, "a") + 1000 * between + line(1, "b") + 1000 * between + line(2, "")
    assert Rendering().feed(block) == b"a\nb\n\n"


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


def test_others_take_turns_while_a_tail_walks_back_over_empty_lines(world):
    directory = world.attempt(0)
    for number in range(9):
        (directory / f"log.{number}.0").write_bytes(b"\n" * 20_000)
    turns = itertools.count()

    async def read_beside_another():
        reading = asyncio.create_task(world.read(tail_lines=10))
        while not reading.done():
            await asyncio.sleep(0)
            next(turns)
        return await reading

    run_virtual(read_beside_another())
    assert next(turns) >= 9 * 20_000 // 1000


# What 2 KiB of text takes of a log if each byte is a line in parts of its own; twice for two files, back and forth.
MOST_BYTES_OF_A_TAIL = 4 * 2048 * 42


@pytest.mark.parametrize(
    ("content", "length"),
    [
        (b"\n", 0),
        (b"x\n", 0),
        (b"\0", 0),
        (line(0, ""), 80),
        (line(0, "x", "P"), 2047),  # the first part may be torn
        (line(0, "x" * 9000), 2048),
    ],
)
def test_the_tail_for_a_message_reads_no_more_than_a_message_can_take(tmp_path, bytes_read, content, length):
    for number in range(10):
        (tmp_path / f"log.{number}.0").write_bytes(content * ((1 << 20) // len(content)))
    text = read_tail(tmp_path, 80, 2048)
    assert len(text) == length
    assert Rendering().feed(content * 2048).endswith(text.encode())
    assert sum(bytes_read) <= MOST_BYTES_OF_A_TAIL


def test_the_tail_for_a_message_ends_though_files_are_made_while_it_is_read(tmp_path, monkeypatch):
    (tmp_path / "log.0.0").write_bytes(line(0, "first"))
    numbers, read = itertools.count(1), os.read

    def read_and_make(*args):
        (tmp_path / f"log.{next(numbers)}.0").write_bytes(line(0, "more"))
        return read(*args)

    monkeypatch.setattr(os, "read", read_and_make)
    assert read_tail(tmp_path, 80, 2048).startswith("first\n")
    assert next(numbers) < 100


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

        def chunks(self, **options):
            return Logs(storage, VirtualClock()).logs(self.pod, LogOptions(container="main", **options))

        async def read(self, **options):
            return b"".join([chunk async for chunk in self.chunks(**options)])

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


def test_lines_that_come_a_few_times_in_a_second_are_seen_sooner_than_those_after_a_long_silence(world):
    directory, clock = world.attempt(0), VirtualClock()
    (directory / "log.0.0").touch()

    async def follow():
        written = 0.0

        async def read():
            return [clock.monotonic() - written async for _ in world.chunks(follow=True)]

        reading = asyncio.create_task(read())
        for pause in [0.137] * 30 + [1.001] * 30:
            await asyncio.sleep(pause)
            written = clock.monotonic()
            with (directory / "log.0.0").open("ab") as file:
                file.write(line(1, "50%"))
        world.alive = False
        return await reading

    delays = run_virtual(follow())
    assert max(delays[:30]) < 0.025
    assert 0.04 < max(delays[31:]) <= 0.05


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
