"""A viewer of the dashboard in a world in virtual time: asks for pages as a browser does, without a socket."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl

from tests.system.plane import World

from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.dashboard.pages import ROUTES
from muster.dashboard.rendering import Renderer
from muster.dashboard.root import ROOT
from muster.dashboard.viewing.copy import Copy
from muster.dashboard.viewing.hosts import Viewer
from muster.dashboard.visits import Deed, Page, Router, Visit
from muster.runtime.client import Client


class Viewing:
    """Somebody who looks at pages, with the rights of a user."""

    def __init__(self, world: World, user: User, namespace: str, transport: Callable[[Any], Any]) -> None:
        self._world = world
        client = Client(transport(world.plane.client(user).transport), field_manager="muster-dashboard")
        self._viewer = Viewer(user.name, user.name, client, namespace)
        self.copy = Copy(client, world.clock, world.random)
        self._renderer = Renderer()
        self._router = Router(ROUTES)

    async def page(self, address: str) -> str:
        """Return the main part of a page. Raises what the page raises."""
        route, visit = self._visit(address)
        assert isinstance(route, Page | Deed)
        visit.copy.begin_round()
        values = {**await route.view(visit), "form_key": "k", "visit": visit, "now": visit.now, "read_only": False}
        return self._renderer.render_main(route.template, values)

    async def text(self, address: str) -> str:
        """Return what a page says, without its markup."""
        return read_text(await self.page(address))

    async def act(self, address: str, form: Mapping[str, str] | None = None) -> str:
        """Send the form of a deed, and return the sentence that is said then."""
        route, visit = self._visit(address)
        assert isinstance(route, Deed)
        return await route.act(visit, form or {})

    async def find_next(self, address: str, form: Mapping[str, str] | None = None) -> str:
        """Return where a viewer goes after a deed."""
        route, visit = self._visit(address)
        assert isinstance(route, Deed)
        return route.after(visit, form or {})

    def _visit(self, address: str) -> tuple[Any, Visit]:
        path, _, query = address.removeprefix(ROOT).partition("?")
        found = self._router.find(path)
        assert found is not None, f"nothing is at {path}"
        route, names = found
        now = self._world.clock.now()
        return route, Visit(self._viewer, self.copy, path, dict(parse_qsl(query)), now, names)


@asynccontextmanager
async def viewing(
    world: World,
    user: User = ADMIN,
    namespace: str = "default",
    transport: Callable[[Any], Any] = lambda transport: transport,
) -> AsyncIterator[Viewing]:
    """Let somebody look at pages, and end what is followed for them. transport: changes what the server answers."""
    viewer = Viewing(world, user, namespace, transport)
    try:
        yield viewer
    finally:
        await viewer.copy.close()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read_text(html: str) -> str:
    """Return the text of a page, with single spaces."""
    reader = _Reader()
    reader.feed(html)
    return " ".join(" ".join(reader.texts).split())
