"""Open pages follow changes."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.system.dashboard.site import Browser, serving

from muster.api.batch import JOB, Job
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ClusterRole
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.runtime.clock import RealClock
from muster.runtime.transport import Request, Response, Transport, TransportError

SPEC = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}}


class Events:
    """The server-sent events of one page."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines

    async def next(self, wanted: str) -> Any:
        """Return the data of the next event of a kind."""
        async with asyncio.timeout(30):
            name = ""
            async for line in self._lines:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data:") and name == wanted:
                    return msgspec.json.decode(text.removeprefix("data:")) if text != "data:" else None
        raise AssertionError(f"the stream ended before {wanted}")


@asynccontextmanager
async def following(browser: Browser, at: str) -> AsyncIterator[Events]:
    async with browser.session.get("/ui/live", params={"at": at}) as answer:
        assert answer.status == 200, await answer.text()
        yield Events(answer.content)


async def make_job(site: Any, name: str) -> None:
    await site.plane.client().create(JOB, msgspec.convert({"metadata": {"name": name}, "spec": SPEC}, Job), "default")


def test_a_job_that_comes_is_shown_and_a_change_of_it_alone_is_sent():
    async def told() -> None:
        async with serving() as site, site.browser("admin-token") as browser:
            await make_job(site, "first")
            async with following(browser, "/ui/jobs") as events:
                assert "first" in (await events.next("whole"))["html"]
                await make_job(site, "second")
                assert "second" in (await events.next("whole"))["html"]
                client = site.plane.client()
                await client.patch(JOB, "first", {"spec": {"suspend": True}}, "default")
                pieces = (await events.next("pieces"))["html"]
                (row,) = pieces.values()
                assert "Suspended" in row
                assert "second" not in row

    asyncio.run(told())


def test_the_filters_of_the_address_hold_for_what_is_sent():
    async def told() -> None:
        async with serving() as site, site.browser("admin-token") as browser:
            await make_job(site, "first")
            async with following(browser, "/ui/jobs?text=sec") as events:
                assert "first" not in (await events.next("whole"))["html"]
                await make_job(site, "second")
                assert "second" in (await events.next("whole"))["html"]

    asyncio.run(told())


def test_a_page_says_so_when_its_viewer_is_no_longer_known():
    async def told() -> None:
        async with (
            serving() as site,
            site.browser("admin-token") as browser,
            following(browser, "/ui/jobs") as events,
        ):
            await events.next("whole")
            del site.users["admin-token"]
            await make_job(site, "secret")
            assert "Unauthorized" in (await events.next("trouble"))["text"]

    asyncio.run(told())


class Line:
    """A viewer's way to the API, which can be cut."""

    def __init__(self) -> None:
        self.is_cut = False

    def __call__(self, transport: Transport) -> Transport:
        self._transport = transport
        return self

    def _check(self) -> None:
        if self.is_cut:
            raise TransportError("Connection refused")

    async def request(self, request: Request) -> Response:
        """Return the answer of the server."""
        self._check()
        return await self._transport.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream, which breaks with the first data after the cut."""
        self._check()
        async with self._transport.stream(request) as chunks:
            yield self._pass(chunks)

    async def _pass(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self._check()
            yield chunk

    async def close(self) -> None:
        """Do nothing: the server goes on."""


def test_a_page_says_that_it_is_old_while_the_api_is_away_and_goes_on_after():
    async def told() -> None:
        line = Line()
        async with (
            serving(line=line) as site,
            site.browser("admin-token") as browser,
            following(browser, "/ui/jobs") as events,
        ):
            await events.next("whole")
            line.is_cut = True
            await make_job(site, "unseen")
            assert "shows what was known before" in (await events.next("trouble"))["text"]
            late = (await browser.get("/ui/jobs")).text
            assert "shows what was known before" in late
            assert "unseen" not in late
            async with following(browser, "/ui/jobs") as later:  # opened meanwhile
                assert "Connection refused" in (await later.next("trouble"))["text"]
            line.is_cut = False
            assert "unseen" in (await events.next("whole"))["html"]
            assert "shows what was known before" not in (await browser.get("/ui/jobs")).text

    asyncio.run(told())


async def refuse_stream(browser: Browser) -> bool:
    """Tell whether the dashboard refuses one more stream, and close it again."""
    async with browser.session.get("/ui/live", params={"at": "/ui/jobs"}) as answer:
        return answer.status == 429


def test_one_viewer_has_a_bounded_number_of_pages_open():
    async def told() -> None:
        async with serving() as site, site.browser("admin-token") as browser, AsyncExitStack() as opened:
            for number in range(100):
                await opened.enter_async_context(following(browser, f"/ui/jobs?text={number}"))
            assert (await browser.get("/ui/live?at=/ui/jobs")).status == 429
            await opened.aclose()
            async with asyncio.timeout(30):
                while await refuse_stream(browser):
                    await RealClock().sleep(0.05)

    asyncio.run(told())


async def let_look(site: Any, name: str) -> None:
    """Let a user sign in and look at everything, by a binding of the same name."""
    site.users[f"{name}-token"] = User(name, frozenset({AUTHENTICATED}))
    client = site.plane.client()
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    role = msgspec.convert({"metadata": {"name": name}, "rules": [rule]}, ClusterRole)
    await client.create(CLUSTER_ROLE, role)
    subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    await client.create(CLUSTER_ROLE_BINDING, msgspec.convert(binding, CLUSTER_ROLE_BINDING.type))


def test_who_loses_a_right_loses_the_open_page_that_others_keep():
    async def told() -> None:
        async with serving() as site, AsyncExitStack() as stack:
            pages = {}
            for name in ("ada", "eve"):
                await let_look(site, name)
                browser = await stack.enter_async_context(site.browser(f"{name}-token"))
                pages[name] = await stack.enter_async_context(following(browser, "/ui/jobs"))
                await pages[name].next("whole")
            await site.plane.client().delete(CLUSTER_ROLE_BINDING, "eve")
            for board in site.dashboard._boards._boards.values():
                board.copy._checked -= 60
            await make_job(site, "unseen")
            assert 'User "eve" cannot list' in (await pages["eve"].next("trouble"))["text"]
            assert "unseen" in (await pages["ada"].next("whole"))["html"]

    asyncio.run(told())


def test_rights_that_cannot_be_asked_for_stop_no_page_of_others(monkeypatch):
    """An error that no code foresees ends neither the page nor the rendering of all pages."""

    async def fail() -> None:
        raise LookupError("unforeseen")

    async def told() -> None:
        async with serving() as site, AsyncExitStack() as stack:
            pages = {}
            for name in ("ada", "eve"):
                await let_look(site, name)
                browser = await stack.enter_async_context(site.browser(f"{name}-token"))
                pages[name] = await stack.enter_async_context(following(browser, "/ui/jobs"))
                await pages[name].next("whole")
            _, board = site.dashboard._boards._boards.values()
            monkeypatch.setattr(board.copy, "check_rights", fail)
            await make_job(site, "unseen")
            assert "cannot be shown" in (await pages["eve"].next("trouble"))["text"]
            assert "unseen" in (await pages["ada"].next("whole"))["html"]
            monkeypatch.undo()
            await make_job(site, "later")
            assert "later" in (await pages["eve"].next("whole"))["html"]

    asyncio.run(told())


def test_a_right_that_is_lost_ends_what_is_shown():
    async def told() -> None:
        async with serving() as site:
            await let_look(site, "eve")
            client = site.plane.client()
            await make_job(site, "seen")
            async with site.browser("eve-token") as browser:
                assert "seen" in (await browser.get("/ui/jobs")).text
                await client.delete(CLUSTER_ROLE_BINDING, "eve")
                for board in site.dashboard._boards._boards.values():
                    board.copy._checked -= 60
                await make_job(site, "unseen")
                answer = await browser.get("/ui/jobs")
                assert "unseen" not in answer.text

    asyncio.run(told())


@pytest.mark.parametrize("way", ["download", "deed"])
def test_downloads_and_deeds_ask_for_rights_too(way: str):
    async def told() -> None:
        async with serving() as site:
            await let_look(site, "eve")
            await make_job(site, "seen")
            async with site.browser("eve-token") as browser:
                page = (await browser.get("/ui/jobs/default/seen/output")).text
                assert "seen" in (await browser.get("/ui/jobs")).text
                [board] = site.dashboard._boards._boards.values()
                await site.plane.client().delete(CLUSTER_ROLE_BINDING, "eve")
                board.copy._checked -= 60
                if way == "download":
                    await browser.get("/ui/history.csv")
                else:
                    [key] = re.findall('name="form_key" value="([^"]+)"', page)[:1]
                    await browser.post("/ui/jobs/default/seen/hold", {"form_key": key})
                assert all(isinstance(one.error, ApiError) for one in board.copy._followed.values())

    asyncio.run(told())


def test_a_stream_needs_a_session_and_a_page_that_there_is():
    async def told() -> None:
        async with serving() as site, site.browser() as nobody, site.browser("admin-token") as browser:
            assert (await nobody.get("/ui/live?at=/ui/jobs")).status == 401
            for at in ("", "/ui/nothing", "/api/v1/secrets", "/ui/live"):
                assert (await browser.get(f"/ui/live?at={at}")).status == 404, at

    asyncio.run(told())


def test_viewers_of_one_page_share_what_is_rendered_and_the_last_one_ends_it():
    async def told() -> None:
        async with serving() as site, site.browser("admin-token") as browser:
            async with following(browser, "/ui/jobs") as one, following(browser, "/ui/jobs") as two:
                assert (await one.next("whole")) == (await two.next("whole"))
            (board,) = site.dashboard._boards._boards.values()
            async with asyncio.timeout(30):
                while board.watched:
                    await RealClock().sleep(0.02)

    asyncio.run(told())
