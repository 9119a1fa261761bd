"""The store by itself: durable writes, reads, lists and watches, on disk and in memory.

    python benchmarks/store.py [--seconds 3] [--objects 100000] [--directory DIR]

Objects are 2 KB pods. "lag" is how late the event loop runs meanwhile: the delay of a callback that asks to run every
millisecond.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec
from clients import Times

from muster.cluster.store import Header, Journal, Key, MemoryJournal, Put, Store
from muster.cluster.store.sqlite import SqliteJournal

BODY_BYTES = 2_000
WATCHERS = 200
BURST = 1_000
PAGE = 5_000


class _Owner(msgspec.Struct):
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    labels: dict[str, str] = {}
    owner_references: tuple[_Owner, ...] = ()
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status


_decoder = msgspec.json.Decoder(_Pod)


def header_of(_: str, body: bytes) -> Header:
    """What a server reads from a pod."""
    pod = _decoder.decode(body)
    meta = pod.metadata
    return Header(
        uid=meta.uid,
        labels=meta.labels,
        owners=tuple(owner.uid for owner in meta.owner_references),
        fields={"spec.nodeName": pod.spec.node_name, "status.phase": pod.status.phase},
        deleting=meta.deletion_timestamp is not None,
    )


_HEAD = (
    b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%b","namespace":"%b","resourceVersion":"%d",'
    b'"uid":"00000000-0000-4000-8000-000000000001","creationTimestamp":"2026-01-01T00:00:00Z",'
    b'"labels":{"app":"train","batch.kubernetes.io/job-name":"train","tier":"batch"},"ownerReferences":'
    b'[{"apiVersion":"batch/v1","kind":"Job","name":"train","uid":"1","controller":true}]},'
)
_TAIL = b'"spec":{"nodeName":"node-1","containers":[]},"status":{"phase":"Running","message":"%b"}}'
_REST = _TAIL % (b"x" * (BODY_BYTES - len(_HEAD) - len(_TAIL)))


def pod(key: Key) -> Callable[[int], bytes]:
    """A 2 KB pod that waits for its revision."""
    return lambda revision: _HEAD % (key.name.encode(), key.namespace.encode(), revision) + _REST


def key_of(number: int) -> Key:
    """Keys in twenty namespaces, not in order."""
    return Key("pods", f"team-{number % 20}", f"train-{number * 7919 % 1_000_003:07d}")


@contextmanager
def lag() -> Iterator[Times]:
    """How late the loop runs a callback that is due every millisecond."""
    times, loop = Times(), asyncio.get_running_loop()
    handle: asyncio.TimerHandle

    def tick(due: float) -> None:
        nonlocal handle
        now = time.perf_counter()
        times.values.append(max(now - due, 0.0))
        handle = loop.call_later(0.001, tick, now + 0.001)

    handle = loop.call_later(0.001, tick, time.perf_counter() + 0.001)
    yield times
    handle.cancel()


def resident() -> float:
    """Megabytes of memory in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def row(name: str, rate: float, unit: str, times: Times, lags: Times | None = None, note: str = "") -> None:
    behind = f"lag p99 {lags.percentile(99) * 1e3:5.1f} ms" if lags else ""
    print(f"  {name:<28}{rate:>10,.0f} {unit:<9}{times.show()}   {behind:<20}{note}", flush=True)


async def creates(store: Store, writers: int, seconds: float, first: int) -> int:
    """Writers that each create one object after the other."""
    times, numbers, end = Times(), count(first), time.perf_counter() + seconds

    async def writer() -> None:
        while time.perf_counter() < end:
            key = key_of(next(numbers))
            with times.one():
                await store.write(Put(key, pod(key)))

    with lag() as lags:
        start = time.perf_counter()
        await asyncio.gather(*(writer() for _ in range(writers)))
        spent = time.perf_counter() - start
    row(f"create, {writers} writers", len(times.values) / spent, "/s", times, lags)
    return next(numbers)


async def busy(store: Store, seconds: float) -> None:
    """256 writers update while the loop has other things to do, a millisecond at a time."""
    keys = [entry.key for entry in store.list("pods").entries[:256]]
    times, end = Times(), time.perf_counter() + seconds

    async def writer(key: Key) -> None:
        encode = pod(key)
        while time.perf_counter() < end:
            with times.one():
                await store.write(Put(key, encode))

    async def other() -> None:
        while time.perf_counter() < end:
            spin = time.perf_counter() + 0.001
            while time.perf_counter() < spin:
                pass
            await asyncio.sleep(0)

    with lag() as lags:
        start = time.perf_counter()
        await asyncio.gather(other(), *map(writer, keys))
        spent = time.perf_counter() - start
    row("update, 256 writers, busy", len(times.values) / spent, "/s", times, lags, "the loop spins meanwhile")


def reads(store: Store) -> None:
    """Gets, and lists of a namespace and of a page."""
    every = store.list("pods").entries
    keys, times = [entry.key for entry in every], Times()
    for key in keys[:20_000]:
        with times.one():
            store.get(key)
    row("get", len(times.values) / sum(times.values), "/s", times)
    times, names = Times(), sorted({key.namespace for key in keys})
    for number in range(100):
        with times.one():
            store.list("pods", names[number % len(names)])
    size = len(store.list("pods", names[0]).entries)
    row(f"list {size:,} of {len(keys):,}", 100 / sum(times.values), "/s", times, None, "a namespace")
    times = Times()
    for _ in range(100):
        with times.one():
            b",".join([entry.body for entry in store.list("pods").entries[:PAGE]])
    row(f"list {PAGE:,} as JSON", 100 / sum(times.values), "/s", times, None, "the first page of all")


async def fan_out(store: Store) -> None:
    """Every watcher reads the line of every change."""
    keys = [entry.key for entry in store.list("pods").entries[:BURST]]
    rounds, times = 5, Times()

    async def watcher() -> None:
        watch, left = store.watch("pods", store.revision), BURST * rounds
        while left:
            changes = await watch.next()
            b"".join([fragment for change in changes for fragment in change.line])
            left -= len(changes)
        watch.close()

    with lag() as lags:
        watchers = [asyncio.create_task(watcher()) for _ in range(WATCHERS)]
        await asyncio.sleep(0)
        start = time.perf_counter()
        for _ in range(rounds):
            for at in range(0, BURST, 50):
                with times.one():
                    await asyncio.gather(*(store.write(Put(key, pod(key))) for key in keys[at : at + 50]))
        await asyncio.gather(*watchers)
        spent = time.perf_counter() - start
    events = WATCHERS * BURST * rounds
    row(f"watch, {WATCHERS} watchers", events / spent, "events/s", times, lags, "writes of 50, all watching")


async def compaction(store: Store) -> None:
    """Forget everything while 16 writers go on."""
    keys = [entry.key for entry in store.list("pods").entries[:16]]
    times, done = Times(), asyncio.Event()

    async def writer(key: Key) -> None:
        encode = pod(key)
        while not done.is_set():
            with times.one():
                await store.write(Put(key, encode))

    with lag() as lags:
        writers = [asyncio.create_task(writer(key)) for key in keys]
        start, span = time.perf_counter(), store.revision - store.oldest
        await store.compact(store.revision)
        spent = time.perf_counter() - start
        done.set()
        await asyncio.gather(*writers)
    row("compact, 16 writers meanwhile", span / spent, "rev/s", times, lags, f"{span:,} revisions")


async def fill(store: Store, objects: int) -> None:
    """At least so many objects."""
    have = len(store.list("pods").entries)
    for at in range(have, objects, 1_000):
        puts = [Put(key, pod(key)) for key in map(key_of, range(at, min(at + 1_000, objects)))]
        await store.write(*puts)


async def measure(name: str, new: Callable[[], Journal], seconds: float, objects: int) -> None:
    """One table."""
    print(f"\n{name}")
    store = await Store(new(), header_of).open()
    first = 0
    for writers in (1, 16, 256):
        first = await creates(store, writers, seconds, first)
    await busy(store, seconds)
    await fill(store, objects)
    reads(store)
    await fan_out(store)
    await compaction(store)
    await store.close()


async def start(directory: Path) -> None:
    """Open a full data directory; in a process of its own, for the memory."""
    before, began = resident(), time.perf_counter()
    store = await Store(SqliteJournal(directory), header_of).open()
    spent, count = time.perf_counter() - began, len(store.list("pods").entries)
    grown = resident() - before
    note = f"{grown:,.0f} MB of memory, {grown * 1e6 / count:,.0f} bytes each"
    print(f"  start with {count:,} objects: {spent:.2f} s, {note}", flush=True)
    await store.close()


def main() -> None:
    """Both journals, on the loop that the server uses."""
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()

    def run(work: Coroutine[None, None, None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)

    if options.start is not None:
        run(start(options.start))
        return
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, objects of {BODY_BYTES:,} bytes")
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        path = Path(directory) / "data"
        run(measure("sqlite, on disk", lambda: SqliteJournal(path), options.seconds, options.objects))
        subprocess.run([sys.executable, __file__, "--start", path], check=True)
    run(measure("memory", MemoryJournal, options.seconds, options.objects))


if __name__ == "__main__":
    main()
