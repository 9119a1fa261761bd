"""The output of a job that really runs: followed line by line, bounded, and as a file."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.system.dashboard.viewing import Viewing, read_text

from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit
from muster.api.batch import JOB
from muster.api.status import ApiError
from muster.cluster import embedded
from muster.cluster.apiserver.answers import Stream
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.dashboard.visits import Download
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random

LIMIT = 60.0
LOUD = (
    "import sys\n"
    "for _ in range(10): sys.stdout.write(('y' * 99 + '\\n') * 20_000)\n"
    "sys.stdout.write('z' * 10_000_000 + '\\n')\n"
    "print('the end')\n"
)


class Watcher(Viewing):
    """Somebody who looks at pages of a cluster that runs in real time."""

    def __init__(self, running: embedded.Running, user: User = ADMIN) -> None:
        world: Any = SimpleNamespace(plane=running.plane, clock=RealClock(), random=Random())
        super().__init__(world, user, "default", lambda transport: transport)
        self.running = running
        self.client: Client = running.plane.client()

    async def stream(self, address: str) -> AsyncIterator[bytes]:
        """Return what an address that is no page answers with."""
        route, visit = self._visit(address)
        assert isinstance(route, Download)
        answer = await route.answer(visit)
        assert isinstance(answer, Stream)
        self.headers = answer.headers
        return answer.chunks

    async def read(self, address: str) -> bytes:
        """Return all of a download."""
        return b"".join([chunk async for chunk in await self.stream(address)])

    async def events(self, address: str) -> list[tuple[str, Any]]:
        """Return all events of a stream that ends."""
        told: list[tuple[str, Any]] = []
        async for chunk in await self.stream(address):
            told += parse_events(chunk)
        return told

    async def run(self, name: str, *command: str, workers: int = 1) -> None:
        """Run a job to its end."""
        await self.start(name, *command, workers=workers)
        await self.until(lambda: self.has_ended(name))

    async def start(self, name: str, *command: str, workers: int = 1) -> None:
        await submit(self.client, Gang(name, command, workers=workers, plain=True), pytest.fail)

    async def has_ended(self, name: str) -> bool:
        text = await self.text(f"/jobs/default/{name}")
        return any(f"{name} {word}" in text for word in ("Completed", "Failed"))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(LIMIT):
            while not await holds():
                await asyncio.sleep(0.05)


def parse_events(chunk: bytes) -> list[tuple[str, Any]]:
    events = []
    for part in chunk.decode().split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in part.splitlines())
        if "event" in fields:
            events.append((fields["event"], msgspec.json.decode(fields["data"])))
    return events


def lines_of(events: list[tuple[str, Any]]) -> list[str]:
    return [f"[{worker}] {text}" for name, data in events if name == "lines" for worker, _, text in data["lines"]]


def play(story: Callable[[Watcher], Awaitable[None]]) -> Callable[[], None]:
    async def body() -> None:
        async with asyncio.timeout(LIMIT), embedded.run_ephemeral_cluster() as running:
            watcher = Watcher(running)
            try:
                await story(watcher)
            finally:
                await watcher.copy.close()

    def run() -> None:
        asyncio.run(body())

    return run


@play
async def test_output_is_followed_to_the_end_of_the_job(watcher: Watcher) -> None:
    await watcher.start("talk", "sh", "-c", "echo first; sleep 0.5; echo second >&2; printf last", workers=1)
    told: list[tuple[str, Any]] = []
    stream = await watcher.stream("/jobs/default/talk/output/stream")
    told += parse_events(await anext(stream))
    assert [name for name, _ in told] == ["begin"]
    async for chunk in stream:
        told += parse_events(chunk)
    assert sorted(lines_of(told)) == ["[0] first", "[0] last", "[0] second"]
    assert lines_of(told)[0] == "[0] first"
    assert told[-1][0] == "end"
    assert any(name == "state" for name, _ in told)


@play
async def test_a_job_that_is_deleted_and_made_again_leads_to_the_new_one(watcher: Watcher) -> None:
    await watcher.start("talk", "sh", "-c", "echo first; sleep 600")
    stream = await watcher.stream("/jobs/default/talk/output/stream")
    told: list[tuple[str, Any]] = []
    async for chunk in stream:
        told += parse_events(chunk)
        if lines_of(told):
            break
    first = await watcher.client.get(JOB, "talk", "default")
    await watcher.client.delete(JOB, "talk", "default")
    async for chunk in stream:
        told += parse_events(chunk)
        if told[-1][0] == "deleted":
            break
    assert told[-1][1]["uid"] == first.metadata.uid
    opened_anew = await watcher.stream(f"/jobs/default/talk/output/stream?deleted={first.metadata.uid}")
    assert parse_events(await anext(opened_anew)) == [told[-1]]
    await watcher.run("talk", "sh", "-c", "echo second")
    for one in (stream, opened_anew):
        rest = [event async for chunk in one for event in parse_events(chunk) if event[0] != "alive"]
        assert rest == [("replaced", {"text": "the job was deleted, and another one has its name"})]
    assert lines_of(await watcher.events("/jobs/default/talk/output/stream")) == ["[0] second"]


@play
async def test_a_viewer_without_rights_waits_for_no_other_job(watcher: Watcher) -> None:
    address = "/jobs/default/talk/output/stream?deleted=b5a5b1a0-0000-4000-8000-000000000000"
    stranger = Watcher(watcher.running, User("eve"))
    try:
        with pytest.raises(ApiError) as caught:
            await stranger.stream(address)
        assert caught.value.code == 403
    finally:
        await stranger.copy.close()


@play
async def test_each_worker_marks_its_lines_and_one_can_be_chosen(watcher: Watcher) -> None:
    await watcher.run("crew", "sh", "-c", "echo i am $RANK; echo oh >&2", workers=3)
    told = await watcher.events("/jobs/default/crew/output/stream")
    assert sorted(lines_of(told)) == sorted(f"[{rank}] {text}" for rank in range(3) for text in (f"i am {rank}", "oh"))
    errors = {text for name, data in told if name == "lines" for _, is_error, text in data["lines"] if is_error}
    assert errors == {"oh"}
    chosen = await watcher.events("/jobs/default/crew/output/stream?rank=1-2&search=i am")
    assert sorted(lines_of(chosen)) == ["[1] i am 1", "[2] i am 2"]
    whole = (await watcher.read("/jobs/default/crew/output/download")).decode().splitlines()
    assert sorted(whole) == sorted(lines_of(told))
    assert "attachment" in watcher.headers["content-disposition"]
    one = await watcher.read("/jobs/default/crew/output/download?rank=1")
    assert sorted(one.splitlines()) == [b"i am 1", b"oh"]
    assert 'filename="crew-1.log"' in watcher.headers["content-disposition"]
    page = await watcher.page("/jobs/default/crew/output?plain=1")
    assert "[2] i am 2" in read_text(page)
    assert "data-stream" not in page


@play
async def test_very_much_output_is_bounded_on_the_page_and_whole_in_the_download(watcher: Watcher) -> None:
    await watcher.run("loud", sys.executable, "-c", LOUD)
    told = await watcher.events("/jobs/default/loud/output/stream")
    lines = lines_of(told)
    assert len(lines) <= 1_000, "of what there is, only the newest lines are sent"
    assert lines[-1] == "[0] the end"
    assert lines[-2].endswith("[cut: the line has 10.0 MB]")
    assert max(map(len, lines)) < 3_000
    size = 0
    async for chunk in await watcher.stream("/jobs/default/loud/output/download"):
        size += len(chunk)
    assert size == 20_000_000 + 10_000_001 + len("the end\n")


@play
async def test_a_reader_who_stops_costs_nothing_more(watcher: Watcher) -> None:
    await watcher.start("ticks", "sh", "-c", "while true; do echo tick; sleep 0.01; done")
    before = {task.get_name() for task in asyncio.all_tasks()}
    stream: Any = await watcher.stream("/jobs/default/ticks/output/stream")
    async for chunk in stream:
        if lines_of(parse_events(chunk)):
            break
    await asyncio.sleep(1)  # a slow reader: what it missed comes in one piece
    assert len(lines_of(parse_events(await anext(stream)))) > 20
    await stream.aclose()
    await asyncio.sleep(0.2)
    followers = [one for one in asyncio.all_tasks() if "logs-" in one.get_name() and one.get_name() not in before]
    assert followers == []
