"""A real browser: Debian's Chromium, driven by Playwright."""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, sync_playwright
from tests.e2e.conftest import Muster

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
WIDE, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
# A machine with other work takes its time; a change that never comes is an error all the same.
PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start the browser for the tests of a file: while it runs, nothing else in this thread can run a loop."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visitor:
    """Somebody with a browser of their own, who is signed in. complaints: what the browser's console said."""

    muster: Muster
    context: BrowserContext
    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Open a page of the dashboard, and wait until it follows changes if it does."""
        self.page.goto(self.url + path)
        return self.page

    def picture(self, name: str, folder: Path | None) -> None:
        """Keep a picture of the page, if a folder was given."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=folder / f"{name}.png", full_page=True)

    def check_accessibility(self) -> list[str]:
        """Return what axe-core finds that is serious or critical."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page, context=None, options={"resultTypes": ["violations"]}).response["violations"]
        return [
            f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Return a function that signs a browser in to the dashboard of a home. link: instead of one that is asked for."""
    opened: list[BrowserContext] = []

    def begin(muster: Muster, *options: str, link: str = "", **settings: Any) -> Visitor:
        link = link or muster("dashboard", "--no-browser", *options).stdout.strip()
        context = chromium.new_context(**{"viewport": WIDE, **settings})
        context.set_default_timeout(PATIENCE_MS)
        opened.append(context)
        page = context.new_page()
        visitor = Visitor(muster, context, page, re.sub(r"/ui/.*", "", link))
        page.on("console", lambda message: _note(visitor, message))
        page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        page.goto(link)
        return visitor

    yield begin
    for context in opened:
        context.close()


def _note(visitor: Visitor, message: ConsoleMessage) -> None:
    if message.type == "error":
        visitor.complaints.append(message.text)


@pytest.fixture(scope="session")
def pictures(request: pytest.FixtureRequest) -> Path | None:
    """Return the folder for pictures of the pages; None for none."""
    folder = request.config.getoption("--pictures")
    return Path(folder) if folder else None
