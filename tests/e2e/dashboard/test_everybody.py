"""The pages for everybody: by keyboard alone, by a screen reader, enlarged, without motion, and with a wrong clock."""

import os
import re
import signal
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Error, Page, ViewportSize
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import PHONE, WIDE, Visit

from muster.actions.server.home import Home
from muster.insight.text import format_duration

DAY_MS = 86_400_000
ENLARGED = ViewportSize(width=640, height=400)  # a wide window at 200 percent
# What a screen reader says of a control that has no name is of no use.
NAMED = (
    "link",
    "button",
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "spinbutton",
    "image",
    "region",
    "navigation",
)


@pytest.fixture(scope="module")
def cluster(shared_muster: Muster) -> Muster:
    """A cluster with a job that runs, one that waits, and a sweep."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated:2,cpu=8,memory=32Gi")
    shared_muster("run", "--detach", "--name", "train", "--elastic", "1:2", "--workers", "2", "--", "sleep", "1000")
    shared_muster("run", "--detach", "--name", "waits", "--workers", "200", "--cpus", "1", "--", "sleep", "1")
    shared_muster("run", "--cron", "0 3 * * *", "--name", "nightly", "--", "sleep", "1")
    shared_muster("run", "--detach", "--name", "tune", "--array", "0-3", "--", "sleep", "1000")
    return shared_muster


PAGES = (
    "/ui/",
    "/ui/jobs",
    "/ui/jobs?columns=all",
    "/ui/jobs/default/train",
    "/ui/jobs/default/tune",
    "/ui/jobs/default/waits",
    "/ui/cronjobs",
    "/ui/cronjobs/default/nightly",
    "/ui/cronjobs/default/nightly/hold",
    "/ui/jobs/default/nightly",
    "/ui/podgroups",
    "/ui/jobs/default/train/output",
    "/ui/jobs/default/train/scale",
    "/ui/queues",
    "/ui/queues?show=local",
    "/ui/queues/cluster/muster-default",
    "/ui/nodes",
    "/ui/nodes/sim-0",
    "/ui/history",
    "/ui/clusters",
    "/ui/simulations",
    "/ui/nothing",
)


def read_tree(page: Page) -> list[dict[str, Any]]:
    """Return what a screen reader gets, in its order."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node for node in nodes if not node.get("ignored")]


def read_value(node: dict[str, Any], name: str) -> str:
    return str((node.get(name) or {}).get("value", ""))


def read_property(node: dict[str, Any], name: str) -> Any:
    return next((one["value"].get("value") for one in node.get("properties", ()) if one["name"] == name), None)


def require_names_and_whole_tables(page: Page, nodes: list[dict[str, Any]], path: str) -> None:
    """Require headings in order, a name of each control, and all cells of each table."""
    levels = [read_property(node, "level") for node in nodes if read_value(node, "role") == "heading"]
    assert levels[0] == 1, path
    assert levels.count(1) == 1, path
    assert all(later <= before + 1 for before, later in pairwise(levels)), path
    unnamed = [read_value(one, "role") for one in nodes if not read_value(one, "name")]
    assert not set(unnamed) & set(NAMED), path
    cells = page.evaluate(
        """[...document.querySelectorAll("table")].map(table => ({
            columns: table.tHead.rows[0].cells.length,
            rows: [...table.tBodies[0].rows].map(row => row.cells.length),
        }))"""
    )
    assert all(set(table["rows"]) <= {table["columns"]} for table in cells), path
    roles = [read_value(node, "role") for node in nodes]
    assert roles.count("table") == len(cells), path
    assert roles.count("columnheader") == sum(table["columns"] for table in cells), path
    assert roles.count("rowheader") + roles.count("cell") == sum(sum(table["rows"]) for table in cells), path


def require_landmarks(page: Page, nodes: list[dict[str, Any]], path: str) -> None:
    """Require the parts of a page that a screen reader jumps to, and no announcement but of what is the matter."""
    live = page.locator("[aria-live]:not([aria-live=off]), [role=status], [role=alert]")
    assert {live.nth(number).get_attribute("id") for number in range(live.count())} <= {
        "trouble-text",
        "output-state",
        "job-state",
    }, path
    roles = [read_value(node, "role") for node in nodes]
    assert "status" in roles, f"{path}: what comes is announced only where something was to be followed before"
    assert (roles.count("banner"), roles.count("main")) == (1, 1), path
    assert "navigation" in roles, f"{path}: each page leads to the others, also one that is not there"


def require_paper(page: Page, path: str) -> None:
    """Require that paper shows what is so, on white, and no controls."""
    page.emulate_media(media="print")
    controls = page.locator(":is(button, input, select, .buttons a, .tabs a, nav a):visible")
    assert controls.count() == 0, path
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", path


@pytest.mark.timeout(400)
def test_each_page_is_for_screen_readers_phones_200_percent_and_paper(cluster: Muster, visit: Visit) -> None:
    """One visit shows all of a page: its scripts ask neither for the size nor for the medium."""
    visitor = visit(cluster, device_scale_factor=2, reduced_motion="reduce", color_scheme="dark")
    for path in PAGES:
        visitor.page.emulate_media(media="screen")
        visitor.page.set_viewport_size(WIDE)
        page = visitor.open(path)
        assert page.evaluate("document.getAnimations().length") == 0, path
        page.evaluate("leave()")  # no change comes between two readings
        nodes = read_tree(page)
        require_names_and_whole_tables(page, nodes, path)
        require_landmarks(page, nodes, path)
        page.set_viewport_size(PHONE)
        require_names_and_whole_tables(page, read_tree(page), path)
        page.set_viewport_size(ENLARGED)
        assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth"), path
        page.set_viewport_size(WIDE)
        require_paper(page, path)


def test_what_is_announced_changes_only_with_what_is_the_matter(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open("/ui/jobs")
    assert not page.locator("#trouble").is_visible()
    page.evaluate("leave(); say('The server does not answer.', 'What you see is 3s old.')")
    announced = page.evaluate(
        """new Promise(resolve => {
            let count = 0;
            const observed = {childList: true, characterData: true, subtree: true};
            new MutationObserver(() => count++).observe(troubleText, observed);
            for (const age of ['4s', '5s', '6s']) say('The server does not answer.', `What you see is ${age} old.`);
            setTimeout(() => resolve(count), 50);
        })"""
    )
    assert announced == 0, "the age changes beside what is announced"
    page.locator("#trouble").wait_for(state="visible")
    page.evaluate("say('')")
    page.locator("#trouble").wait_for(state="hidden")


def test_a_job_that_ends_says_so_to_those_who_listen(cluster: Muster, visit: Visit) -> None:
    cluster("run", "--detach", "--name", "heard", "--", "sleep", "1000")
    page = visit(cluster).open("/ui/jobs/default/heard")
    page.get_by_role("status").get_by_text("Running", exact=True).wait_for()
    page.evaluate("window.listened = document.getElementById('job-state')")
    cluster("cancel", "heard")
    page.get_by_role("status").get_by_text("Cancelled", exact=True).wait_for()
    assert page.evaluate("listened.isConnected"), "a screen reader says what changes in an element that stays"


def test_a_bar_is_said_once_and_in_words(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    for path in ("/ui/", "/ui/queues", "/ui/nodes", "/ui/queues/cluster/muster-default", "/ui/nodes/sim-0"):
        nodes = read_tree(visitor.open(path))
        names = [read_value(node, "name") for node in nodes if read_value(node, "role") == "image"]
        assert all(re.search(r" used| requested", name) for name in names if name), path
        said = [read_value(node, "name") for node in nodes if read_value(node, "role") == "StaticText"]
        assert "used of its own" not in said, f"{path}: what a colour means is for the eye"
        if path != "/ui/nodes/sim-0":
            assert not [text for text in said if re.fullmatch(r"[\d.]+\w*/[\d.]+\w*", text)], path


def test_a_page_that_is_behind_says_how_old_it_is_to_the_eye_alone(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open("/ui/jobs")
    page.evaluate("leave(); sayLate(Date.now() - 7000)")
    page.get_by_text("Much changes now. This page is").wait_for()
    assert page.evaluate("!late.closest('[aria-live], [role]')"), "its age changes each second"
    page.evaluate("hear()")
    page.locator("#late").wait_for(state="hidden")


def test_a_job_is_scaled_and_cancelled_by_keyboard_alone(cluster: Muster, visit: Visit) -> None:
    cluster("run", "--detach", "--name", "by-keys", "--elastic", "1:2", "--workers", "2", "--", "sleep", "1000")
    visitor = visit(cluster)
    page = visitor.open("/ui/jobs")
    page.get_by_role("link", name="by-keys", exact=True).wait_for()

    def press_until(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent.trim()") == name:
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                return page.keyboard.press("Enter")
        raise AssertionError(f"the keyboard does not reach {name}")

    press_until("by-keys")
    page.wait_for_url("**/jobs/default/by-keys")
    press_until("Scale")
    page.wait_for_url("**/scale")
    page.get_by_label("Workers").focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    refusal = page.get_by_role("alert")
    refusal.get_by_text("it has 1 to 2 workers, and 7 is more").wait_for()
    assert page.evaluate("document.activeElement.value") == "7", "what was written is there, to be mended"
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "refusal"
    press_until("Leave it as it is")
    page.wait_for_url("**/jobs/default/by-keys")
    press_until("Cancel")
    page.wait_for_url("**/cancel")
    press_until("Cancel the job")
    page.get_by_text("by-keys cancelled", exact=True).wait_for()
    assert page.evaluate("document.activeElement.id") == "said", "what was done is said"
    assert [one for one in visitor.complaints if "409" not in one] == []


def test_a_cron_job_is_held_and_released_from_its_page(cluster: Muster, visit: Visit) -> None:
    cluster("run", "--cron", "0 4 * * *", "--name", "weekly", "--", "sleep", "1")
    visitor = visit(cluster)
    page = visitor.open("/ui/cronjobs")
    page.get_by_role("link", name="weekly", exact=True).click()
    page.get_by_role("link", name="Hold").click()
    page.get_by_text("It starts no jobs until somebody releases it.").wait_for()
    page.get_by_role("button", name="Hold the CronJob").click()
    page.get_by_text("weekly held: it starts no jobs until it is released").wait_for()
    page.get_by_role("heading", name="Held").wait_for()
    cluster("release", "weekly")  # elsewhere, while the page is open
    page.get_by_role("heading", name="Active").wait_for()
    assert visitor.check_accessibility() == []
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("link", name="Leave it as it is").click()
    page.get_by_role("heading", name="Active").wait_for()
    assert visitor.complaints == []


def test_the_reason_of_a_waiting_job_is_there_at_200_percent(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster, viewport=ENLARGED, device_scale_factor=2).open("/ui/jobs")
    page.get_by_role("row").filter(has_text="waits").get_by_text("never fit at once").wait_for()


@pytest.mark.parametrize("path", ["/ui/jobs", "/ui/queues/cluster/muster-default"])
def test_the_reason_of_a_waiting_job_is_in_sight_on_a_phone(cluster: Muster, visit: Visit, path: str) -> None:
    page = visit(cluster, viewport=PHONE).open(path)
    reason = page.get_by_role("row").filter(has_text="waits").locator(".reason").first
    box = reason.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    assert "never fit at once" in reason.inner_text()


def test_colours_that_are_forced_leave_the_map_and_its_legend(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster, forced_colors="active").open("/ui/nodes")
    colours = page.evaluate(
        "[...document.querySelectorAll('.cells a')].map(one => getComputedStyle(one).backgroundColor)"
    )
    canvas = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours
    assert canvas not in colours


@pytest.mark.parametrize(("days", "way"), [(1, "ahead of"), (-1, "behind")])
def test_a_browser_whose_clock_is_wrong_shows_right_ages(cluster: Muster, visit: Visit, days: int, way: str) -> None:
    visitor = visit(cluster)
    visitor.page.add_init_script(f"const real = Date.now; Date.now = () => real() + {days * DAY_MS};")
    page = visitor.open("/ui/jobs")
    page.get_by_text(f"The clock of this browser is 24h {way} the server's.").wait_for()
    ages = page.locator("time.age")
    page.wait_for_timeout(1100)  # the page renews its ages each second
    assert all(re.fullmatch(r"\d+s|\d+m(\d+s)?", ages.nth(number).inner_text()) for number in range(ages.count()))


def test_the_browser_says_ages_in_the_words_of_the_commands(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open("/ui/jobs")
    page.locator("#clock").wait_for(state="hidden")
    seconds = [
        -5,
        0,
        1,
        119,
        120,
        121,
        599,
        600,
        3599,
        3600,
        7260,
        10799,
        10800,
        10860,
        28799,
        28800,
        172799,
        172800,
        10**7,
    ]
    assert page.evaluate("seconds => seconds.map(describeAge)", seconds) == list(map(format_duration, seconds))


def test_a_browser_without_server_sent_events_is_told_to_reload(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    visitor.page.add_init_script("delete window.EventSource;")
    page = visitor.open("/ui/jobs")
    page.get_by_text("This browser cannot follow changes: reload the page to see them.").wait_for()
    page.get_by_role("link", name="train", exact=True).wait_for()
    page = visitor.open("/ui/jobs/default/train/output")
    page.get_by_text("This browser cannot follow output:").get_by_role("link", name="show the last lines").click()
    page.wait_for_url(re.compile("plain=1"))


def test_a_retry_leads_to_the_new_sweep(cluster: Muster, visit: Visit) -> None:
    cluster("run", "--detach", "--name", "half", "--array", "0-1", "--", "sleep", "1000")
    cluster("cancel", "half")
    cluster("wait", "half", check=False)
    page = visit(cluster).open("/ui/jobs/default/half")
    page.get_by_role("link", name="Retry the unfinished trials").click()
    page.get_by_label("Name of the new sweep").fill("half-again")
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("This is the new sweep half-again: it retries 2 of 2 trials of half").wait_for()
    page.get_by_role("heading", name="half-again").wait_for()


def test_what_runs_is_said_to_run_after_the_server_was_killed(muster: Muster, visit: Visit) -> None:
    muster("up", "--detach", "--port", "0", "--nodes", "process,cpu=4,memory=4Gi")
    muster("run", "--detach", "--name", "lives-on", "--workers", "2", "--", "sleep", "1000")
    visitor = visit(muster)
    page = visitor.open("/ui/")
    page.get_by_role("listitem").filter(has_text="lives-on").get_by_text("Running").wait_for()
    pid = Home(muster.home).server_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    page.get_by_text("The server does not answer.").wait_for()
    answers: list[str] = []
    with muster.start("up", "--detach", "--port", visitor.url.rpartition(":")[2]) as starting:
        while len(answers) < 20:  # those of the first moments
            assert starting.poll() in (None, 0), "the server starts"
            try:
                answer = visitor.context.request.get(f"{visitor.url}/ui/", timeout=5_000)
            except Error:  # nobody listens yet
                continue
            answers.append(answer.text() if answer.ok else "")
    assert all("Nothing runs." not in one and "lives-on" in one for one in answers if one)
    page.get_by_role("listitem").filter(has_text="lives-on").get_by_text("Running").wait_for()
    page.locator("#trouble").wait_for(state="hidden")
    muster("down", "--yes")
