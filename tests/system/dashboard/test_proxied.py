"""A proxy in front names the viewers, and the pages act as them by impersonation, with the roles of a real server."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace
from tests.system.dashboard.site import Browser, MovedClock

from muster.api.config.types import IdentityHeaders
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.identity.users import User
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.dashboard import app as dashboard_app
from muster.dashboard.app import Dashboard
from muster.dashboard.viewing.fronts import IdentityFront
from muster.dashboard.viewing.hosts import Proof
from muster.dashboard.viewing.identities import Identity
from muster.dashboard.viewing.impersonation import ImpersonatingHost
from muster.dashboard.viewing.sessions import Sessions
from muster.install.dashboard import impersonation_rules
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import Request, Response

ACCOUNT = "system:serviceaccount:kueue-system:muster-dashboard"
SECRET = "0123456789abcdef"
SETTINGS = IdentityHeaders(
    user_header="X-User", groups_header="X-Groups", allowed_groups=("lab",), secret_header="X-Secret"
)
ALICE = {"X_User": "alice", "X_Secret": SECRET}
EVE = {"X_User": "eve", "X_Secret": SECRET}


class ActingAs:
    """A transport as the account of the dashboard, with the headers that the one over TLS sends."""

    def __init__(self, plane: ControlPlane, identity: Identity) -> None:
        self._inner = InProcessTransport(plane.server, User(ACCOUNT, frozenset({"system:authenticated"})))
        groups = [("impersonate-group", group) for group in identity.groups]
        self._headers = (("impersonate-user", identity.user), *groups)

    async def request(self, request: Request) -> Response:
        """Return the answer to whom the identity names."""
        return await self._inner.request(replace(request, headers=self._headers))

    def stream(self, request: Request) -> Any:
        """Open a stream as whom the identity names."""
        return self._inner.stream(replace(request, headers=self._headers))

    async def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Fronted:
    """A dashboard behind a proxy. browser: sends what the proxy would."""

    browser: Browser
    plane: ControlPlane
    host: ImpersonatingHost
    sessions: Sessions
    clock: MovedClock


async def grant(client: Client, name: str, rules: list[dict[str, Any]], *subjects: tuple[str, str]) -> None:
    """Give users and groups a ClusterRole."""
    await client.create(CLUSTER_ROLE.seen_as(dict), {"metadata": {"name": name}, "rules": rules})
    group = "rbac.authorization.k8s.io"
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    listed = [{"apiGroup": group, "kind": kind, "name": subject} for kind, subject in subjects]
    document = {"metadata": {"name": name}, "roleRef": reference, "subjects": listed}
    await client.create(CLUSTER_ROLE_BINDING.seen_as(dict), document)


READ = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
Told = Callable[[Fronted], Awaitable[None]]


@asynccontextmanager
async def fronted(tmp_path: Path, settings: IdentityHeaders = SETTINGS, **more: Any) -> AsyncIterator[Fronted]:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane:
        await grant(plane.client(), "impersonation", impersonation_rules(settings), ("User", ACCOUNT))
        await grant(plane.client(), "reader", [READ], ("User", "alice"), ("Group", "lab"))
        clock = MovedClock()
        host = ImpersonatingHost(lambda identity: Client(ActingAs(plane, identity)), clock)
        sessions = Sessions(clock)
        front = IdentityFront(settings, secret)
        dashboard = Dashboard(host, sessions, clock, Random(), hosts=None, front=front, **more)
        listener = Listener(dashboard, None)
        url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}"
        try:
            async with aiohttp.ClientSession(url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                yield Fronted(Browser(session, url), plane, host, sessions, clock)
        finally:
            await dashboard.close()
            await listener.stop(0.5)


def play(told: Told, tmp_path: Path, settings: IdentityHeaders = SETTINGS, **more: Any) -> None:
    async def run() -> None:
        async with fronted(tmp_path, settings, **more) as site:
            await told(site)

    asyncio.run(run())


def test_a_page_is_that_of_whom_the_proxy_names(tmp_path: Path) -> None:
    async def told(site: Fronted) -> None:
        page = await site.browser.get("/ui/jobs?state=running", final=False, **ALICE)
        assert page.status == 200
        assert 'title="You act with the rights of alice">alice<' in page.text
        assert "state=running" in page.text  # the address is kept
        assert "set-cookie" not in page.headers
        eve = await site.browser.get("/ui/nodes", final=False, **EVE)
        assert 'User "eve" cannot list resource "nodes"' in eve.text.replace("&#34;", '"')
        assert (await site.browser.get("/ui/nodes", final=False, **ALICE)).status == 200

    play(told, tmp_path)


def test_a_group_gives_its_rights_while_the_proxy_names_it(tmp_path: Path) -> None:
    async def told(site: Fronted) -> None:
        assert (await site.browser.get("/ui/nodes", final=False, X_Groups="other,lab", **EVE)).status == 200
        assert (await site.browser.get("/ui/nodes", final=False, X_Groups="other", **EVE)).status == 403

    play(told, tmp_path)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"X_User": "alice"}, 401),
        ({"X_User": "alice", "X_Secret": "wrong"}, 401),
        ({"X_Secret": SECRET}, 401),
        ({"X_User": "root, alice", "X_Secret": SECRET}, 400),
        ({"X_User": "system:admin", "X_Secret": SECRET}, 403),
        ({"X_User": "alice", "X_Groups": "system:masters", "X_Secret": SECRET}, 403),
        ({"Authorization": "Bearer admin-token"}, 401),
    ],
)
def test_nobody_comes_past_the_proxy(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async def told(site: Fronted) -> None:
        for path in ("/ui/", "/ui/jobs", "/ui/live?at=/ui/jobs", "/ui/history.csv"):
            answer = await site.browser.get(path, final=False, **headers)
            assert answer.status == status, path
            assert "set-cookie" not in answer.headers
            assert SECRET not in answer.text
        assert (await site.browser.post("/ui/leave", {}, **headers)).status == status
        for path in ("/ui/enter", "/ui/links"):
            assert (await site.browser.post(path, {"token": "x"}, **headers)).status in (401, 403, 405)

    play(told, tmp_path)


def test_a_cookie_opens_nothing_without_the_proxy(tmp_path: Path) -> None:
    async def told(site: Fronted) -> None:
        session = site.sessions.follow("alice", Proof(identity=Identity("alice")))
        for cookie in (session.id, session.form_key, "proxied alice", site.sessions.open("alice", session.proof)):
            site.browser.keep_cookies({"muster-session": cookie})
            assert (await site.browser.get("/ui/jobs")).status == 401
            page = await site.browser.get("/ui/jobs", final=False, X_Groups="lab", **EVE)
            assert ">eve<" in page.text

    play(told, tmp_path)


def test_a_form_is_accepted_from_the_pages_of_the_same_viewer_alone(tmp_path: Path) -> None:
    async def told(site: Fronted) -> None:
        keys = {}
        for name, headers in (("alice", ALICE), ("eve", {"X_Groups": "lab", **EVE})):
            page = await site.browser.get("/ui/", final=False, **headers)
            keys[name] = re.findall('name="form_key" value="([^"]+)"', page.text)[0]
        assert keys["alice"] != keys["eve"]
        path = "/ui/leave"
        assert (await site.browser.post(path, {}, **ALICE)).status == 403
        assert (await site.browser.post(path, {"form_key": keys["eve"]}, **ALICE)).status == 403
        elsewhere = {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"}
        assert (await site.browser.post(path, {"form_key": keys["alice"]}, **elsewhere, **ALICE)).status == 403
        left = await site.browser.post(path, {"form_key": keys["alice"]}, **ALICE)
        assert (left.status, left.headers["location"]) == (303, "/oauth2/sign_out")
        again = await site.browser.get("/ui/", final=False, **ALICE)
        assert keys["alice"] not in again.text  # what was open before is over

    play(told, tmp_path, sign_out_path="/oauth2/sign_out")


def test_there_is_no_way_out_where_the_proxy_has_none(tmp_path: Path) -> None:
    async def told(site: Fronted) -> None:
        assert "Sign out" not in (await site.browser.get("/ui/", final=False, **ALICE)).text

    play(told, tmp_path)


def test_open_pages_end_with_the_session_and_ask_the_proxy_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_app, "_PROXIED_PAGE_SECONDS", 0.0)

    async def told(site: Fronted) -> None:
        async with asyncio.timeout(30):
            events = await site.browser.get("/ui/live?at=/ui/jobs", final=False, **ALICE)
        assert events.text.endswith("event: again\ndata:\n\n")
        session = site.sessions.follow("alice", Proof(identity=Identity("alice")))
        site.clock.ahead = timedelta(hours=13)
        assert not site.sessions.is_open(session)

    play(told, tmp_path)


def test_a_user_whose_rights_are_taken_away_sees_nothing_more(tmp_path: Path) -> None:
    async def told(site: Fronted) -> None:
        assert (await site.browser.get("/ui/nodes/none", final=False, **ALICE)).status == 404
        await site.plane.client().delete(CLUSTER_ROLE_BINDING, "reader")
        assert (await site.browser.get("/ui/jobs/default/none", final=False, **ALICE)).status == 403

    play(told, tmp_path)


def test_an_account_that_may_not_impersonate_says_so(tmp_path: Path) -> None:
    async def told(site: Fronted) -> None:
        await site.plane.client().delete(CLUSTER_ROLE_BINDING, "impersonation")
        site.host.viewers.forget()
        page = await site.browser.get("/ui/", final=False, **ALICE)
        assert page.status == 403
        assert f'User "{ACCOUNT}" cannot impersonate resource "users"' in page.text.replace("&#34;", '"')

    play(told, tmp_path)
