"""The way into the dashboard: links, cookies, forms, and all that does not open it."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.system.dashboard.site import Site, serving

from muster.cluster.apiserver.identity.users import User
from muster.dashboard.guard import HEADERS
from muster.dashboard.rendering import Renderer
from muster.runtime.transport import Request, Response, Transport

Told = Callable[[Site], Awaitable[None]]


def play(told: Told, file: Path | None = None) -> None:
    async def run() -> None:
        async with serving(file) as site:
            await told(site)

    asyncio.run(run())


def test_a_link_signs_in_once_and_leaves_nothing_in_the_address():
    async def told(site: Site) -> None:
        link = site.make_link("admin-token")
        async with site.browser() as browser:
            assert (await browser.get("/ui/jobs")).status == 401
            entered = await browser.get(link)
            assert (entered.status, entered.headers["location"]) == (303, "/ui/")
            cookie = entered.headers["set-cookie"]
            assert {"HttpOnly", "SameSite=Strict", "Path=/ui", "Max-Age=43200"} <= set(cookie.split("; "))
            assert (await browser.get("/ui/jobs")).status == 200
        async with site.browser() as other:
            assert (await other.get(link)).status == 403
            assert (await other.get("/ui/jobs")).status == 401

    play(told)


def test_the_overview_is_prepared_for_whoever_asked_for_a_link(caplog: pytest.LogCaptureFixture):
    async def told(site: Site) -> None:
        asked: list[str] = []
        site.users["nobody"] = User("nobody")

        class Line:
            """Notes what is asked on the way to the API."""

            def __init__(self, transport: Transport) -> None:
                self._transport = transport
                self.stream, self.close = transport.stream, transport.close

            async def request(self, request: Request) -> Response:
                asked.append(request.path)
                return await self._transport.request(request)

        lines.append(Line)
        lists = {"/api/v1/pods", "/apis/batch/v1/jobs", "/api/v1/nodes"}
        link = site.make_link("admin-token")
        await asyncio.gather(*site.dashboard._preparations)
        assert lists <= set(asked)
        asked.clear()
        async with site.browser() as browser:
            assert (await browser.get(link, final=True)).status == 200
        assert not lists & set(asked), "the overview that the link leads to finds the lists"
        for token in ("nobody", "unknown"):
            site.make_link(token)
        await asyncio.gather(*site.dashboard._preparations)
        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]

    lines: list[Callable[[Transport], Transport]] = []

    async def run() -> None:
        async with serving(line=lambda transport: lines[0](transport) if lines else transport) as site:
            await told(site)

    asyncio.run(run())


def test_many_links_of_a_viewer_prepare_one_overview(monkeypatch: pytest.MonkeyPatch):
    rendered: list[str] = []
    render_main = Renderer.render_main

    def note(renderer: Renderer, template: str, values: dict[str, Any]) -> str:
        rendered.append(template)
        return render_main(renderer, template, values)

    async def told(site: Site) -> None:
        for _ in range(20):
            site.make_link("admin-token")
        await asyncio.gather(*site.dashboard._preparations)
        assert rendered == ["overview/overview.html"]

    monkeypatch.setattr(Renderer, "render_main", note)
    play(told)


def test_a_link_is_valid_for_a_minute():
    async def told(site: Site) -> None:
        link = site.make_link("admin-token")
        site.clock.ahead = timedelta(seconds=61)
        async with site.browser() as browser:
            answer = await browser.get(link)
            assert answer.status == 403
            assert "muster dashboard" in answer.text

    play(told)


def test_a_session_ends_after_twelve_hours_and_with_its_credential():
    async def told(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            site.clock.ahead = timedelta(hours=12, seconds=1)
            assert (await browser.get("/ui/jobs")).status == 401
        async with site.browser("admin-token") as browser:
            assert (await browser.get("/ui/jobs")).status == 200
            del site.users["admin-token"]
            assert (await browser.get("/ui/jobs")).status == 401

    play(told)


def test_the_cookie_is_new_at_every_sign_in():
    async def told(site: Site) -> None:
        async with site.browser() as browser:
            chosen = {"muster-session": "chosen-by-somebody-else"}
            browser.keep_cookies(chosen)
            entered = await browser.get(site.make_link("admin-token"))
            assert "chosen-by-somebody-else" not in entered.headers["set-cookie"]
            assert (await browser.get("/ui/jobs")).status == 200

    play(told)


def test_signing_out_ends_the_session_for_everybody_who_has_the_cookie():
    async def told(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            page = await browser.get("/ui/jobs")
            key = re.search(r'name="form_key" value="([^"]+)"', page.text)
            assert key is not None
            stolen = {cookie.key: cookie.value for cookie in browser.session.cookie_jar}
            assert (await browser.post("/ui/leave", {"form_key": key[1]})).status == 303
            late = await browser.post("/ui/jobs/default/train/cancel", {"form_key": key[1]})
            assert late.status == 401
            assert "You are signed out, so nothing was changed." in late.text
            assert "nothing was changed" not in (await browser.get("/ui/jobs")).text
            async with site.browser() as thief:
                thief.keep_cookies(stolen)
                assert (await thief.get("/ui/jobs")).status == 401

    play(told)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": "same-site"},
        {"Origin": "null", "Sec_Fetch_Site": ""},
        {"Origin": "", "Sec_Fetch_Site": ""},
    ],
)
def test_a_form_from_elsewhere_changes_nothing(headers):
    async def told(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            page = await browser.get("/ui/jobs")
            key = re.search(r'name="form_key" value="([^"]+)"', page.text)
            assert key is not None
            assert (await browser.post("/ui/leave", {"form_key": key[1]}, **headers)).status == 403
            assert (await browser.get("/ui/jobs")).status == 200

    play(told)


@pytest.mark.parametrize("form", [{}, {"form_key": ""}, {"form_key": "x" * 43}])
def test_a_form_without_the_key_of_the_session_changes_nothing(form):
    async def told(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            assert (await browser.post("/ui/leave", form)).status == 403
            assert (await browser.get("/ui/jobs")).status == 200

    play(told)


def test_another_name_of_the_server_is_refused():
    async def told(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            for path in ("/ui/jobs", "/ui/static/x/style.css", site.make_link("admin-token")):
                assert (await browser.get(path, Host="evil.example")).status == 421

    play(told)


def test_a_link_of_another_site_opens_the_page_after_it_asked_by_itself():
    async def told(site: Site) -> None:
        async with site.browser() as browser:  # as a browser that keeps the cookie back
            answer = await browser.get("/ui/jobs", Sec_Fetch_Site="cross-site")
            assert 'http-equiv="refresh"' in answer.text
            again = await browser.get("/ui/jobs", Sec_Fetch_Site="same-origin")
            assert "Sign in" in again.text

    play(told)


def test_nobody_is_led_elsewhere():
    async def told(site: Site) -> None:
        for to in (
            "//evil.example",
            "https://evil.example",
            "/ui//evil.example",
            "/\\evil.example",
            "/ui/%0Ax",
            "/ui/%2F%2Fevil.example",
            "/uix",
        ):
            async with site.browser() as browser:
                answer = await browser.get(f"{site.make_link('admin-token')}&to={to}")
                assert answer.headers["location"] == "/ui/", to

    play(told)


def test_every_answer_forbids_what_a_page_does_not_need():
    async def told(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            for path in ("/ui/jobs", "/ui/nothing", "/ui/static/x/muster.js", "/ui"):
                answer = await browser.get(path)
                for name, value in HEADERS.items():
                    assert name == "cache-control" or answer.headers[name] == value, (path, name)

    play(told)


def test_sessions_outlive_a_restart(tmp_path):
    file, kept = tmp_path / "sessions.json", dict[str, str]()

    async def before(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            kept.update({cookie.key: cookie.value for cookie in browser.session.cookie_jar})

    async def after(site: Site) -> None:
        async with site.browser() as browser:
            browser.keep_cookies(kept)
            assert (await browser.get("/ui/jobs")).status == 200

    play(before, file)
    play(after, file)


def test_a_form_that_is_too_long_or_broken_is_refused():
    async def told(site: Site) -> None:
        async with site.browser("admin-token") as browser:
            assert (await browser.post("/ui/leave", {"form_key": "x" * 300_000})).status == 413
            async with browser.session.post(
                "/ui/leave", data=b"\xff\xfe%%%&&&==", headers={"Origin": site.url}
            ) as answer:
                assert answer.status == 403

    play(told)
