"""Stream the output of a job: its newest lines to an open page, or all of it into a file.

The server buffers little. For a page that reads slowly, the oldest buffered lines are dropped. A slow download slows
down the reading of the log.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import msgspec

from muster.actions.following.carriagereturns import split_lines
from muster.actions.following.elsewhere import make_reach
from muster.actions.following.excerpt import Excerpt
from muster.actions.following.follow import DELETED, Follower
from muster.actions.following.printout import Printout, ShowOutput
from muster.actions.following.successor import wait_for_successor
from muster.api.status import ApiError
from muster.dashboard.jobs.printed import PrintedLine, Tray
from muster.insight.jobs.state import Ending, JobState
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.ids import Random
from muster.runtime.realclock import Clock, RealClock
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# Lines that arrive within this time are sent together.
_BATCH_SECONDS = 0.15
_HEARTBEAT_SECONDS = 5.0
# The maximum number of pieces of a download that are buffered for its reader.
_MOST_PIECES = 8


async def follow_lines(client: Client, job: JobRecord, excerpt: Excerpt) -> AsyncIterator[bytes]:
    """Yield the newest lines of a job, then further lines until it ends, as server-sent events.

    If the job is deleted, the stream continues until another job has its name.
    """
    tray, changed, clock = Tray(), asyncio.Event(), RealClock()
    states: list[JobState] = []

    async def show(worker: str, stream: bytes, text: bytes) -> None:
        tray.add(worker, stream, text)
        changed.set()
        await asyncio.sleep(0)  # lets other tasks run while a program prints continuously

    def warn(sentence: str) -> None:
        tray.add("muster", b"stderr", f"{sentence}\n".encode())
        changed.set()

    def report(state: JobState) -> None:
        states[:] = [state]
        changed.set()

    follower = _make_follower(client, clock, job, excerpt, show, warn)
    follower.report = report
    following = asyncio.create_task(follower.run(job))
    following.add_done_callback(lambda _: changed.set())
    try:
        yield b"retry: 2000\n\n" + encode_event("begin", {})
        while not following.done():
            try:
                async with asyncio.timeout(_HEARTBEAT_SECONDS):
                    await changed.wait()
            except TimeoutError:
                yield encode_event("alive", {})
                continue
            await clock.sleep(_BATCH_SECONDS)
            changed.clear()
            yield _encode_batch(tray, states)
        tray.finish()
        yield _encode_batch(tray, states)
    finally:
        await cancel([following])
    if following.exception() is not None or following.result() != DELETED:
        yield encode_event("end", {"text": _describe_end(following)})
        return
    async with aclosing(follow_successor(client, job.metadata.namespace, job.metadata.name, job.metadata.uid)) as rest:
        async for event in rest:
            yield event


async def follow_successor(client: Client, namespace: str, name: str, uid: str) -> AsyncGenerator[bytes, None]:
    """Yield the events after the deletion of a job. The last event reports that another job has its name.

    uid: the UID of the deleted job.
    """
    yield encode_event("deleted", {"text": "the job was deleted", "uid": uid})
    waiting = asyncio.create_task(wait_for_successor(client, RealClock(), Random(), namespace, name, uid))
    try:
        while not (await asyncio.wait([waiting], timeout=_HEARTBEAT_SECONDS))[0]:
            yield encode_event("alive", {})
        waiting.result()
        yield encode_event("replaced", {"text": "the job was deleted, and another one has its name"})
    finally:
        await cancel([waiting])


def _encode_batch(tray: Tray, states: list[JobState]) -> bytes:
    state = states.pop() if states else None
    said = encode_event("state", {"word": state.word, "reason": state.reason}) if state is not None else b""
    return said + encode_event("lines", tray.take())


def _describe_end(following: "asyncio.Task[Ending]") -> str:
    """Return why the output of a followed job has ended: how the job ended, or an error of the server.

    Raises any other error.
    """
    error = following.exception()
    if error is None:
        return following.result().text or "the job has completed"
    if isinstance(error, ApiError | TransportError):
        return str(error)
    raise error


def encode_event(name: str, data: object) -> bytes:
    """Return a server-sent event with this name, and with the data as JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


async def read_last_lines(client: Client, job: JobRecord, excerpt: Excerpt) -> list[PrintedLine]:
    """Return the last existing lines of a job's output, and remarks about missing output.

    Raises `ApiError`, `TransportError`.
    """
    tray = Tray()

    async def show(worker: str, stream: bytes, text: bytes) -> None:
        tray.add(worker, stream, text)

    def warn(sentence: str) -> None:
        tray.add("muster", b"stderr", f"{sentence}\n".encode())

    await _make_printout(client, job, excerpt, show, warn).print_once(job)
    tray.finish()
    return tray.take().lines


async def read_whole(client: Client, job: JobRecord, excerpt: Excerpt, *, marked: bool) -> AsyncIterator[bytes]:
    """Yield the existing output of a job in pieces.

    marked: whether each line starts with the rank of its worker.

    Remarks about missing output are lines, too.
    """
    pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_PIECES)
    begun: dict[str, bytes] = {}

    async def show(worker: str, _stream: bytes, text: bytes) -> None:
        if not marked:
            await pieces.put(text)
            return
        lines, begun[worker] = split_lines(begun.get(worker, b""), text)
        if lines:
            await pieces.put(_mark(worker, lines))

    def warn(sentence: str) -> None:
        begun["muster"] = begun.get("muster", b"") + f"{sentence}\n".encode()

    async def read() -> None:
        try:
            await _make_printout(client, job, excerpt, show, warn).print_once(job)
        except (ApiError, TransportError) as error:
            warn(f"the rest is missing: {error}")
        for worker, rest in begun.items():
            if rest:
                await pieces.put(_mark(worker, rest if rest.endswith(b"\n") else rest + b"\n"))
        await pieces.put(None)

    reading = asyncio.create_task(read())
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
    finally:
        await cancel([reading])


def _mark(worker: str, lines: bytes) -> bytes:
    head = f"[{worker}] ".encode()
    return head + lines[:-1].replace(b"\n", b"\n" + head) + b"\n"


def _make_printout(
    client: Client, job: JobRecord, excerpt: Excerpt, show: ShowOutput, warn: Callable[[str], None]
) -> Printout:
    meta = job.metadata
    return Printout(client, RealClock(), meta.namespace, meta.name, show, warn, excerpt, make_reach(client))


def _make_follower(
    client: Client,
    clock: Clock,
    job: JobRecord,
    excerpt: Excerpt,
    show: ShowOutput,
    warn: Callable[[str], None],
) -> Follower:
    meta = job.metadata
    return Follower(
        client,
        clock,
        Random(),
        meta.namespace,
        meta.name,
        show=show,
        warn=warn,
        excerpt=excerpt,
        reach=make_reach(client),
    )
