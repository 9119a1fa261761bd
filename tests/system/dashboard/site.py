"""A dashboard beside a control plane in this process, and a browser that keeps cookies and runs nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from muster.api.status import unauthorized
from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.front.pages import Pages, PlainFront
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.dashboard.app import Dashboard
from muster.dashboard.root import ROOT
from muster.dashboard.viewing.hosts import EmbeddedHost, Proof
from muster.dashboard.viewing.sessions import Sessions
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.tasks import cancel
from muster.runtime.transport import Transport


class MovedClock(RealClock):
    """The machine's clock, which a test puts forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return super().now() + self.ahead


@dataclass
class Site:
    """A dashboard that is served. users: those who may sign in, by their token; a test removes them."""

    plane: ControlPlane
    dashboard: Dashboard
    url: str
    clock: MovedClock
    users: dict[str, User] = field(default_factory=dict)

    @asynccontextmanager
    async def browser(self, token: str = "") -> AsyncIterator["Browser"]:
        """Open a browser; with a token, signed in."""
        jar = aiohttp.CookieJar(unsafe=True)  # it keeps those of addresses, too
        async with aiohttp.ClientSession(self.url, cookie_jar=jar, connector=aiohttp.TCPConnector(limit=0)) as session:
            browser = Browser(session, self.url)
            if token:
                await browser.get(self.make_link(token), final=True)
            yield browser

    def make_link(self, token: str) -> str:
        """Return the path that signs a user in."""
        return self.dashboard.make_link(Proof(authorization=f"Bearer {token}"))


@dataclass(frozen=True)
class Answer:
    """What a browser got."""

    status: int
    headers: Any
    text: str


@dataclass(frozen=True)
class Browser:
    """What asks for pages."""

    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str, *, final: bool = False, **headers: str) -> Answer:
        """Ask for a page. final: follow where the answer leads."""
        async with self.session.get(path, allow_redirects=final, headers=_named(headers)) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    def keep_cookies(self, cookies: dict[str, str]) -> None:
        """Have these cookies of the server."""
        self.session.cookie_jar.update_cookies(cookies, URL(self.url))

    async def post(self, path: str, form: dict[str, str], **headers: str) -> Answer:
        """Send a form, as a page of this server does unless the headers say otherwise."""
        sent = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"} | _named(headers)
        async with self.session.post(path, data=form, allow_redirects=False, headers=sent) as answer:
            return Answer(answer.status, answer.headers, await answer.text())


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def serving(
    file: Path | None = None,
    *,
    read_only: bool = False,
    simulations: Path | None = None,
    line: Callable[[Transport], Transport] = lambda transport: transport,
) -> AsyncIterator[Site]:
    """Serve a dashboard within the context. file: of the sessions. simulations: the folder of reports.

    line: makes the viewers' way to the API of the direct one.
    """
    clock = MovedClock()
    async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane:
        users = {"admin-token": ADMIN}

        async def identify(proof: Proof) -> User:
            user = users.get(proof.authorization.removeprefix("Bearer "))
            if user is None:
                raise unauthorized()
            return user

        def connect(user: User) -> Client:
            return Client(line(plane.client(user).transport), field_manager="muster-dashboard")

        host = EmbeddedHost(identify, connect, simulations=simulations)
        dashboard = Dashboard(host, Sessions(clock, file), clock, Random(), read_only=read_only)
        listener = Listener(PlainFront(Pages(ROOT, dashboard)), None)
        port = await listener.start("127.0.0.1", 0)
        running = asyncio.create_task(plane.manager.run())
        try:
            yield Site(plane, dashboard, f"http://127.0.0.1:{port}", clock, users)
        finally:
            await dashboard.close()
            await listener.stop(0.5)
            await plane.manager.stop()
            await cancel([running])
