"""Pages in a real browser, as a user sees them: live, usable by everybody, and safe from what strangers wrote."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import PHONE, Visit

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def cluster(shared_muster: Muster) -> Muster:
    """A cluster with jobs that run, wait and have ended."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated:4,cpu=8,memory=32Gi")
    shared_muster("run", "--detach", "--name", "train", "--workers", "4", "--", "sleep", "1000")
    shared_muster("run", "--detach", "--name", "too-big", "--workers", "200", "--cpus", "1", "--", "sleep", "1")
    return shared_muster


def test_a_jobs_life_is_watched_without_a_reload(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    page = visitor.open("/ui/jobs")
    page.get_by_role("link", name="train", exact=True).wait_for()
    cluster("run", "--detach", "--name", "watched", "--workers", "2", "--", "sleep", "1000")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="watched", exact=True))
    row.get_by_text("Running").wait_for()
    cluster("cancel", "watched")
    row.get_by_text("Cancelled").wait_for()
    assert visitor.complaints == []


def test_filters_stand_in_the_address_and_the_back_button_works(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open("/ui/jobs")
    page.locator("select[name=state]").select_option("Queued")
    page.wait_for_url(re.compile("state=Queued"))
    page.get_by_role("link", name="too-big").wait_for()
    assert page.get_by_role("link", name="train", exact=True).count() == 0
    page.go_back()
    page.get_by_role("link", name="train", exact=True).wait_for()
    page = visit(cluster).open("/ui/history")
    page.locator("select[name=by]").select_option("day")
    page.wait_for_url(re.compile("by=day"))
    page.go_back()
    page.wait_for_url(re.compile("/ui/history$"))
    page.wait_for_load_state()
    assert page.locator("select[name=by]").input_value() == "user", "the filters are those of the list"


def test_what_a_viewer_has_opened_stays_open_when_the_page_changes(cluster: Muster, visit: Visit) -> None:
    cluster("run", "--detach", "--name", "opened", "--", "sleep", "1000")
    visitor = visit(cluster)
    page = visitor.open("/ui/jobs/default/opened")
    page.get_by_text("Manifest", exact=True).click()
    page.get_by_text("kind: JobSet").wait_for()
    cluster("hold", "opened")
    page.get_by_text("Held", exact=True).wait_for()
    assert page.locator("#manifest").evaluate("one => one.open")
    page.get_by_text("Manifest", exact=True).click()
    cluster("release", "opened")
    page.get_by_text("Held", exact=True).wait_for(state="detached")
    assert not page.locator("#manifest").evaluate("one => one.open")
    assert visitor.complaints == []


def test_an_open_page_says_when_the_server_is_away_and_goes_on_after_a_restart(muster: Muster, visit: Visit) -> None:
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:1,cpu=8")
    visitor = visit(muster)
    port = visitor.url.rpartition(":")[2]
    page = visitor.open("/ui/jobs")
    page.get_by_text("There are no jobs").wait_for()
    muster("down")
    page.get_by_text("The server does not answer").wait_for()
    muster("up", "--detach", "--port", port)
    muster("run", "--detach", "--name", "after", "--", "sleep", "1000")
    page.get_by_role("link", name="after", exact=True).wait_for()
    assert page.get_by_text("The server does not answer").is_hidden()
    muster("down", "--yes")


def test_what_strangers_wrote_is_text(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    page = visitor.open(f"/ui/jobs?text={HOSTILE}&state={HOSTILE}&page={HOSTILE}")
    assert page.get_by_label("Text").input_value() == HOSTILE
    page.goto(f"{visitor.url}/ui/{HOSTILE}")
    assert page.locator("img:not(.brand img)").count() == 0
    assert not [one for one in visitor.complaints if "404" not in one]


LOOKS: dict[str, dict[str, Any]] = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": {"viewport": PHONE}}
PAGES = {"jobs": "/ui/jobs", "no-jobs": "/ui/jobs?state=Failed", "nothing": "/ui/nothing"}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_the_pages(
    cluster: Muster, visit: Visit, pictures: Path | None, name: str, look: str
) -> None:
    visitor = visit(cluster, **LOOKS[look])
    page = visitor.open(PAGES[name])
    page.wait_for_load_state()
    assert visitor.check_accessibility() == []
    sideways = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    assert not sideways, "the page does not scroll sideways"
    visitor.picture(f"{name}-{look}", pictures)


def test_the_keyboard_reaches_the_content(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open("/ui/jobs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_signing_out(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    other = visitor.context.new_page()
    other.goto(f"{visitor.url}/ui/nodes")
    other.get_by_role("heading", name="Nodes").wait_for()
    page = visitor.open("/ui/jobs")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    other.get_by_text("You are signed out.").wait_for()
    assert other.locator("main").inner_text() == "", "what the viewer might see is gone"
    page.go_back()
    page.reload()
    page.get_by_role("heading", name="Sign in").wait_for()
