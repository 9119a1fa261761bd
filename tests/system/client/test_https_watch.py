"""The watch table, a test for each cell: an informer over HTTPS against a server that ends its watches in every way."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.system.client.scripted_server import Step, World, answer, hang_up, play, refuse, stream

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.runtime.client import Client
from muster.runtime.ids import Random
from muster.runtime.informer import Informer

POD = Kind("", "v1", "Pod", "pods", Object)
PATH = "/api/v1/pods"


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", "resourceVersion": str(version)}}


def listed(version: int, *pods: dict[str, Any]) -> Step:
    return answer({"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(pods)})


def event(type: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": type, "object": obj}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


GONE = event("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"})
QUIET = stream(stay=True)


@asynccontextmanager
async def informer(world: World) -> AsyncIterator[list[str]]:
    """Runs an informer; yields the changes that it tells, in words."""
    told: list[str] = []

    def tell(old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            told.append(f"DELETED {old.metadata.name}")
        else:
            verb = "ADDED" if old is None else "MODIFIED"
            told.append(f"{verb} {new.metadata.name}@{new.metadata.resource_version}")

    async with world.as_user() as transport:
        watched = Informer(Client(transport), POD, world.clock, Random(1))
        watched.on_change(tell)
        running = asyncio.create_task(watched.run())
        try:
            yield told
        finally:
            running.cancel()
            await asyncio.wait([running])
    assert running.cancelled()  # nothing else has ended it


def follow(lists: list[Step], watches: list[Step], check: Callable[[World, list[str]], Awaitable[None]]) -> None:
    """Run an informer until the last of the watches has been asked for."""

    async def scenario(world: World) -> None:
        world.server.on(PATH, *lists)
        world.server.on_watch(PATH, *watches)
        async with informer(world) as told:
            await world.server.until_watched(len(watches))
            await check(world, told)

    play(scenario)


def versions(world: World) -> list[str]:
    """From where each watch was asked for."""
    return [seen.query["resourceVersion"] for seen in world.server.watches]


def test_asks_for_bookmarks_and_resumes_at_them() -> None:
    async def check(world: World, told: list[str]) -> None:
        assert all(seen.query["allowWatchBookmarks"] == "true" for seen in world.server.watches)
        assert versions(world) == ["10", "50"]
        assert told == ["ADDED a@3"]

    follow([listed(10, pod("a", 3))], [stream(bookmark(50)), QUIET], check)


def test_resumes_at_the_last_version_after_the_server_closes_the_stream() -> None:
    async def check(world: World, told: list[str]) -> None:
        assert versions(world) == ["10", "12", "13"]
        assert len(world.server.lists) == 1
        assert told == ["ADDED a@3", "MODIFIED a@11", "ADDED b@12", "DELETED a"]

    follow(
        [listed(10, pod("a", 3))],
        [
            stream(event("MODIFIED", pod("a", 11)), event("ADDED", pod("b", 12))),
            stream(event("DELETED", pod("a", 13))),
            QUIET,
        ],
        check,
    )


def test_resumes_at_the_last_version_after_the_connection_breaks() -> None:
    async def check(world: World, told: list[str]) -> None:
        # The second watch is asked for twice: it broke before it began.
        assert versions(world) == ["10", "11", "11", "11"]
        assert len(world.server.lists) == 1
        assert told == ["ADDED b@11"]

    follow([listed(10)], [stream(event("ADDED", pod("b", 11)), abort=True), hang_up, hang_up, QUIET], check)


def test_410_once_lists_again_and_tells_the_differences() -> None:
    async def check(world: World, told: list[str]) -> None:
        assert versions(world) == ["10", "30"]
        assert len(world.server.lists) == 2
        assert told[:3] == ["ADDED same@1", "ADDED changed@2", "ADDED gone@3"]
        assert sorted(told[3:]) == ["ADDED new@22", "DELETED gone", "MODIFIED changed@21"]

    first = listed(10, pod("same", 1), pod("changed", 2), pod("gone", 3))
    second = listed(30, pod("same", 1), pod("changed", 21), pod("new", 22))
    follow([first, second], [stream(GONE), QUIET], check)


def test_410_as_the_answer_to_the_watch_is_the_same() -> None:
    async def check(world: World, told: list[str]) -> None:
        assert versions(world) == ["10", "30"]
        assert told == ["ADDED gone@3", "DELETED gone"]

    follow([listed(10, pod("gone", 3)), listed(30)], [refuse(410, "Expired"), QUIET], check)


def test_410_for_ever_backs_off() -> None:
    async def check(world: World, told: list[str]) -> None:
        pauses = [seconds for seconds in world.clock.sleeps if seconds]
        assert len(pauses) >= len(world.server.watches) - 1  # never a watch without a pause before it
        assert all(0.8 <= seconds <= 30 for seconds in pauses)
        assert all(seconds >= 15 for seconds in pauses[6:])
        assert told == ["ADDED a@3"]  # each list said the same

    follow([listed(10, pod("a", 3))], [stream(GONE)] * 20, check)


def test_a_server_that_closes_every_watch_at_once_is_not_asked_in_a_hot_loop() -> None:
    async def check(world: World, told: list[str]) -> None:
        pauses = [seconds for seconds in world.clock.sleeps if seconds]
        assert len(pauses) >= len(world.server.watches) - 1
        assert versions(world) == ["10"] * len(world.server.watches)
        assert told == []

    follow([listed(10)], [stream()] * 20, check)


def test_a_watch_goes_on_with_a_new_token(tmp_path: Any) -> None:
    async def scenario(world: World) -> None:
        path = tmp_path / "token"
        path.write_text("one")
        world.server.tokens = {"one"}
        world.server.on(PATH, listed(10))
        world.server.on_watch(PATH, stream(event("ADDED", pod("a", 11))), stream(event("ADDED", pod("b", 12))), QUIET)
        async with world.as_user({"tokenFile": str(path)}) as transport:
            watched = Informer(Client(transport), POD, world.clock, Random(1))

            def rotate(*_: Object | None) -> None:
                path.write_text("two")
                world.server.tokens = {"two"}

            watched.on_change(rotate)
            running = asyncio.create_task(watched.run())
            await world.server.until_watched(4)
            running.cancel()
            await asyncio.wait([running])
            assert [obj.metadata.name for obj in watched.all()] == ["a", "b"]
        assert [(seen.token, seen.query["resourceVersion"]) for seen in world.server.watches] == [
            ("one", "10"),
            ("one", "11"),
            ("two", "11"),
            ("two", "12"),
        ]

    play(scenario)
