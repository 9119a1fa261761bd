"""Viewers of any cluster sign in with a token, on a page or by a proxy in front, and act with its rights alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from tests.system.dashboard.site import Browser, MovedClock

from muster.api.status import ApiError
from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.identity.users import ADMIN, AUTHENTICATED, User
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.dashboard.app import Dashboard
from muster.dashboard.viewing.fronts import TokenFront
from muster.dashboard.viewing.hosts import Proof
from muster.dashboard.viewing.recognized import TRUSTED_SECONDS
from muster.dashboard.viewing.sessions import Sessions
from muster.dashboard.viewing.tokens import TokenHost
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import Request, Response, TransportError

EVE = User("system:serviceaccount:lab:eve", frozenset({AUTHENTICATED}))


class ByToken:
    """A transport to a server that knows some tokens."""

    def __init__(self, plane: ControlPlane, users: dict[str, User], token: str) -> None:
        self._plane, self._users, self._token = plane, users, token

    async def request(self, request: Request) -> Response:
        """Return the answer, as a server that authenticates the token."""
        user = self._users.get(self._token)
        if user is None:
            return Response(401, b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}')
        return await InProcessTransport(self._plane.server, user).request(request)

    def stream(self, request: Request) -> Any:
        """Open a stream as the user of the token."""
        return InProcessTransport(self._plane.server, self._users.get(self._token, EVE)).stream(request)

    async def close(self) -> None:
        """Do nothing."""


Told = Callable[[Browser, dict[str, User], Dashboard], Awaitable[None]]


def play(told: Told, header: str = "") -> None:
    async def run() -> None:
        async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane:
            users = {"admin-token": ADMIN, "eve-token": EVE}
            clock = MovedClock()
            host = TokenHost(lambda token: Client(ByToken(plane, users, token)), clock)
            front = TokenFront(header) if header else None
            dashboard = Dashboard(host, Sessions(clock), clock, Random(), hosts=None, front=front)
            listener = Listener(dashboard, None)
            url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}"
            try:
                jar = aiohttp.CookieJar(unsafe=True)
                async with aiohttp.ClientSession(url, cookie_jar=jar) as session:
                    await told(Browser(session, url), users, dashboard)
            finally:
                await dashboard.close()
                await listener.stop(0.5)

    asyncio.run(run())


def test_a_token_signs_in_on_the_page() -> None:
    async def told(browser: Browser, _users: dict[str, User], _: Dashboard) -> None:
        page = await browser.get("/ui/jobs")
        assert page.status == 401
        assert 'name="token"' in page.text
        entered = await browser.post("/ui/enter?to=/ui/history", {"token": " admin-token\n"})
        assert (entered.status, entered.headers["location"]) == (303, "/ui/history")
        page = await browser.get("/ui/jobs")
        assert page.status == 200
        assert "kubernetes-admin" in page.text
        assert "admin-token" not in page.text

    play(told)


def test_a_token_that_the_cluster_does_not_know_opens_nothing() -> None:
    async def told(browser: Browser, _users: dict[str, User], _: Dashboard) -> None:
        for token in ("", "wrong", "with space", "\x00", "é", "x" * 100_000):
            answer = await browser.post("/ui/enter", {"token": token})
            assert answer.status == 401, token[:20]
            assert "set-cookie" not in answer.headers

    play(told)


def test_what_was_opened_for_a_refused_token_is_closed() -> None:
    class Counted:
        closed = False

        async def request(self, _: Request) -> Response:
            return Response(401, b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}')

        async def close(self) -> None:
            """Note it."""
            self.closed = True

    opened: list[Counted] = []

    def connect(_: str) -> Client:
        opened.append(Counted())
        return Client(opened[-1])  # type: ignore[arg-type]

    async def told() -> None:
        host = TokenHost(connect, RealClock())
        for number in range(50):
            with pytest.raises(ApiError):
                await host.recognize(Proof(authorization=f"Bearer wrong-{number}"))

    asyncio.run(told())
    assert len(opened) == 50
    assert all(one.closed for one in opened)


def test_a_token_from_a_form_elsewhere_opens_nothing() -> None:
    async def told(browser: Browser, _users: dict[str, User], _: Dashboard) -> None:
        answer = await browser.post(
            "/ui/enter", {"token": "admin-token"}, Origin="https://evil.example", Sec_Fetch_Site="cross-site"
        )
        assert answer.status == 403

    play(told)


def test_everything_is_done_with_the_rights_of_the_token() -> None:
    async def told(browser: Browser, _users: dict[str, User], _: Dashboard) -> None:
        await browser.post("/ui/enter", {"token": "eve-token"})
        page = await browser.get("/ui/jobs")
        assert "system:serviceaccount:lab:eve" in page.text
        assert "cannot list" in page.text or page.status == 403

    play(told)


def test_a_revoked_token_ends_the_session_within_seconds() -> None:
    async def told(browser: Browser, users: dict[str, User], dashboard: Dashboard) -> None:
        await browser.post("/ui/enter", {"token": "admin-token"})
        assert (await browser.get("/ui/jobs")).status == 200
        del users["admin-token"]
        dashboard._host.viewers.forget()  # type: ignore[attr-defined]
        assert (await browser.get("/ui/jobs")).status == 401
        assert TRUSTED_SECONDS <= 10

    play(told)


def test_a_proxy_in_front_signs_viewers_in() -> None:
    async def told(browser: Browser, users: dict[str, User], dashboard: Dashboard) -> None:
        first = await browser.get("/ui/jobs?state=running", X_Forwarded_Access_Token="admin-token")
        assert first.status == 200
        assert "state=running" in first.text
        assert "set-cookie" not in first.headers  # the proxy says with every request who it is
        assert (await browser.get("/ui/jobs")).status == 401
        users["renewed"] = users.pop("admin-token")
        dashboard._host.viewers.forget()  # type: ignore[attr-defined]
        assert (await browser.get("/ui/jobs", X_Forwarded_Access_Token="admin-token")).status == 401
        assert (await browser.get("/ui/jobs", X_Forwarded_Access_Token="renewed")).status == 200

    play(told, "X-Forwarded-Access-Token")


def test_a_page_is_that_of_whom_the_proxy_has_signed_in_last() -> None:
    async def told(browser: Browser, _users: dict[str, User], _: Dashboard) -> None:
        await browser.post("/ui/enter", {"token": "admin-token"})  # a session of before
        page = await browser.get("/ui/jobs", X_Forwarded_Access_Token="eve-token")
        assert "system:serviceaccount:lab:eve" in page.text
        assert ">kubernetes-admin<" not in page.text

    play(told, "X-Forwarded-Access-Token")


def test_without_a_proxy_its_header_means_nothing() -> None:
    async def told(browser: Browser, _users: dict[str, User], _: Dashboard) -> None:
        assert (await browser.get("/ui/jobs", X_Forwarded_Access_Token="admin-token")).status == 401

    play(told)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    async def told(browser: Browser, _users: dict[str, User], dashboard: Dashboard) -> None:
        class Silent:
            async def request(self, _: Request) -> Response:
                raise TransportError("connection refused by 10.0.0.1")

            async def close(self) -> None:
                """Do nothing."""

        dashboard._host._connect = lambda _: Client(Silent())  # type: ignore[attr-defined,arg-type]
        answer = await browser.post("/ui/enter", {"token": "any"})
        assert answer.status == 503
        assert "Connection refused by 10.0.0.1" in answer.text

    play(told)


@pytest.mark.parametrize(
    "proof", [Proof(), Proof(owner=True), Proof(authorization="Basic x"), Proof(authorization="Bearer ")]
)
def test_no_token_is_no_proof(proof: Proof) -> None:
    host = TokenHost(lambda _: Client(None), RealClock())  # type: ignore[arg-type]
    with pytest.raises(ApiError) as raised:
        asyncio.run(host.recognize(proof))
    assert raised.value.code == 401
