"""Lists that viewers share, each with rights of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.system.plane import World, virtual

from muster.api.batch import JOB
from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import ADMIN, AUTHENTICATED, User
from muster.dashboard.viewing.copy import Copy
from muster.dashboard.viewing.lists import Lists
from muster.insight.reader.listing.views import JOB_LINES
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response, Transport, TransportError

LOOKS = ("list", "watch")
SPEC = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}


class Watching:
    """A transport that counts the watches."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self.watches = transport, 0

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of the server."""
        self.watches += 1
        return self._transport.stream(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Silent:
    """A way to the API on which no answer comes once it is silent, or each answer is this one."""

    def __init__(self) -> None:
        self.is_silent, self.status = False, 0

    def __call__(self, transport: Transport) -> "Silent":
        self._transport = transport
        return self

    async def request(self, request: Request) -> Response:
        """Return the answer of the server."""
        if self.is_silent:
            await asyncio.Event().wait()
        if self.status:
            return Response(self.status, b'{"kind":"Status","message":"broken","code":%d}' % self.status)
        return await self._transport.request(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Team:
    """Viewers of one server."""

    def __init__(self, world: World, stack: AsyncExitStack) -> None:
        self._world, self._stack = world, stack
        self.transport = Watching(world.plane.client(ADMIN).transport)
        self.lists = Lists(Client(self.transport), world.clock, world.random, has_all_rights=True)

    async def join(
        self,
        name: str,
        namespace: str = "",
        verbs: Sequence[str] = LOOKS,
        line: Callable[[Transport], Any] = lambda transport: transport,
    ) -> Copy:
        """Return the copy of a new viewer who may look at jobs, of one namespace or of all.

        line: makes the viewer's way to the API of the direct one.
        """
        rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs}
        subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        role, binding = _find_kinds(namespace)
        reference = {"kind": role.kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        await self._create(role, {"metadata": {"name": name}, "rules": [rule]}, namespace)
        bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await self._create(binding, bound, namespace)
        client = Client(line(self._world.plane.client(User(name, frozenset({AUTHENTICATED}))).transport))
        copy = Copy(client, self._world.clock, self._world.random, lists=self.lists)
        self._stack.push_async_callback(copy.close)
        return copy

    async def take_right(self, name: str, namespace: str = "") -> None:
        """Take the right of a viewer away."""
        await self._world.client.delete(_find_kinds(namespace)[1], name, namespace)

    async def _create(self, kind: Kind[Any], document: dict[str, Any], namespace: str) -> None:
        await self._world.client.create(kind.seen_as(dict), document, namespace)


def _find_kinds(namespace: str) -> tuple[Kind[Any], Kind[Any]]:
    return (ROLE, ROLE_BINDING) if namespace else (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)


@asynccontextmanager
async def gather(world: World) -> AsyncIterator[Team]:
    await world.job("train", 2)
    async with AsyncExitStack() as stack:
        yield Team(world, stack)


async def list_names(copy: Copy, namespace: str = "", kind: Kind[Any] = JOB) -> list[str]:
    return [one.metadata.name for one in (await copy.list(kind, namespace)).items]


async def is_refused(copy: Copy, namespace: str = "") -> bool:
    with pytest.raises(ApiError) as refusal:
        await copy.list(JOB, namespace)
    return refusal.value.code == 403


@virtual
async def test_ten_viewers_have_one_watch_and_see_each_change(world: World) -> None:
    async with gather(world) as team:
        copies = [await team.join(f"viewer-{number}") for number in range(10)]
        for copy in copies:
            assert await list_names(copy) == ["train"]
        before = [copy.revision for copy in copies]
        await world.job("other", 1)
        await world.settle(1)
        for copy, revision in zip(copies, before, strict=True):
            assert await list_names(copy) == ["train", "other"]
            assert copy.revision > revision
        assert team.transport.watches == 1


@virtual
async def test_a_list_is_followed_until_its_last_viewer_leaves(world: World) -> None:
    async with gather(world) as team:
        first, second = await team.join("first"), await team.join("second")
        await list_names(first)
        await list_names(second)
        await first.close()
        await world.job("other", 1)
        await world.settle(1)
        assert await list_names(second) == ["train", "other"]
        await second.close()
        assert team.lists.keys == []


@virtual
async def test_who_has_no_right_gets_nothing_of_what_others_follow(world: World) -> None:
    async with gather(world) as team:
        assert await list_names(await team.join("ada")) == ["train"]
        eve = await team.join("eve", "default")
        assert await is_refused(eve)
        assert await list_names(eve, "default") == ["train"]


@virtual
async def test_a_list_takes_the_right_to_the_watch_too(world: World) -> None:
    async with gather(world) as team:
        assert await list_names(await team.join("ada")) == ["train"]
        assert await is_refused(await team.join("eve", verbs=("list",)))
        assert await is_refused(await team.join("mallory", verbs=("watch",)))


@virtual
async def test_a_lost_right_ends_the_list_of_that_viewer_alone(world: World) -> None:
    async with gather(world) as team:
        ada, eve = await team.join("ada"), await team.join("eve")
        assert await list_names(ada) == await list_names(eve) == ["train"]
        await team.take_right("eve")
        await world.settle(10)
        for copy in (ada, eve):
            await copy.check_rights()
        [followed] = team.lists._followed.values()
        followed.report_watch(None)  # the watch that goes on for others begins anew
        assert await is_refused(eve)
        await world.settle(11)  # the list is asked for again
        assert await is_refused(eve)
        await world.job("other", 1)
        await world.settle(1)
        assert await list_names(ada) == ["train", "other"]


@virtual
async def test_a_check_of_rights_outlasts_the_request_that_began_it(world: World) -> None:
    async with gather(world) as team:
        eve = await team.join("eve")
        assert await list_names(eve) == ["train"]
        await team.take_right("eve")
        await world.settle(10)
        request = asyncio.create_task(eve.check_rights())
        await asyncio.sleep(0)
        request.cancel()  # the viewer hangs up
        await eve.check_rights()
        assert await is_refused(eve)


@pytest.mark.parametrize("way", ["silent", "500", "503"])
def test_a_right_that_cannot_be_asked_for_counts_for_a_minute(way: str) -> None:
    @virtual
    async def play(world: World) -> None:
        async with gather(world) as team:
            line = Silent()
            ada, eve = await team.join("ada"), await team.join("eve", line=line)
            assert await list_names(ada) == await list_names(eve) == ["train"]
            line.is_silent, line.status = way == "silent", int(way) if way.isdecimal() else 0
            await team.take_right("eve")
            began = world.clock.monotonic()

            async def look_on() -> None:
                while world.clock.monotonic() < began + 120:
                    await world.settle(1)
                    for copy in (ada, eve):
                        await copy.check_rights()
                    assert await list_names(eve) == ["train"]

            with pytest.raises(TransportError, match="Whether you may still see this could not be checked for"):
                await look_on()
            assert 60 <= world.clock.monotonic() - began <= 80
            assert await list_names(ada) == ["train"]
            line.is_silent, line.status = False, 0
            await world.settle(11)
            assert await is_refused(eve)

    play()


@virtual
async def test_what_is_shown_stays_while_the_right_has_been_confirmed_within_a_minute(world: World) -> None:
    async with gather(world) as team:
        line = Silent()
        eve = await team.join("eve", line=line)
        assert await list_names(eve) == ["train"]
        for _ in range(20):
            line.status = 503 if line.status == 0 else 0
            await world.settle(11)
            await eve.check_rights()
            assert await list_names(eve) == ["train"]


@virtual
async def test_a_change_in_another_namespace_wakes_no_viewer_of_one(world: World) -> None:
    async with gather(world) as team:
        await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "lab"}})
        ada, eve = await team.join("ada"), await team.join("eve", "lab")
        assert await list_names(ada) == ["train"]
        assert await list_names(eve, "lab") == []
        assert len(team.lists.keys) == 1, "both are served by one list"
        await world.settle(2)
        before = ada.revision, eve.revision
        await world.job("other", 1)
        await world.settle(2)
        assert ada.revision > before[0]
        assert eve.revision == before[1]
        await world.client.create(JOB.seen_as(dict), {"metadata": {"name": "hers"}, "spec": SPEC}, "lab")
        await world.settle(2)
        assert eve.revision > before[1]
        assert await list_names(eve, "lab") == ["hers"]


@virtual
async def test_a_viewer_of_one_namespace_shares_the_whole_list_and_sees_that_part(world: World) -> None:
    async with gather(world) as team:
        await world.client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": "lab"}})
        assert await list_names(await team.join("ada")) == ["train"]
        eve = await team.join("eve", "lab")
        assert await list_names(eve, "lab") == []
        assert await list_names(eve, "lab", JOB_LINES) == []
        document = {"metadata": {"name": "secret"}, "spec": SPEC}
        await world.client.create(JOB.seen_as(dict), document, "lab")
        await world.settle(1)
        assert await list_names(eve, "lab") == ["secret"]
        assert await is_refused(eve, "default")
        assert team.transport.watches == 1
