"""A job in a real browser: its page, its output and what is done to it."""

import re
from pathlib import Path

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import Visit
from tests.e2e.dashboard.test_pages import LOOKS

TALK = "for i in $(seq 200); do echo step $i; done; echo '<img src=x onerror=alert(1)>'; echo careful >&2; sleep 1000"


PRIORITIES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: usual}
value: 0
"""
# A browser without a window hides no page by itself.
HIDE = (
    "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
    "document.dispatchEvent(new Event('visibilitychange'));"
)
SHOW = HIDE.replace("true,", "false,")


@pytest.fixture(scope="module")
def cluster(shared_muster: Muster) -> Muster:
    """A cluster with a job that talks, one that waits and a sweep that failed in part."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "process,cpu=8,memory=8Gi")
    shared_muster("run", "--detach", "--name", "talk", "--workers", "2", "--", "sh", "-c", TALK)
    shared_muster("run", "--detach", "--name", "waits", "--workers", "200", "--cpus", "1", "--", "sleep", "1")
    shared_muster("run", "--name", "tune", "--array", "0-4", "--", "sh", "-c", "test $MUSTER_INDEX != 3", check=False)
    return shared_muster


def test_the_life_of_a_job_is_watched_and_ended_on_its_page(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    visitor.complaints.clear()
    cluster("run", "--detach", "--name", "brief", "--workers", "2", "--", "sleep", "1000")
    page = visitor.open("/ui/jobs")
    page.get_by_role("link", name="brief", exact=True).click()
    title = page.locator(".title .state")
    title.get_by_text("Running").wait_for()
    page.get_by_role("row").filter(has_text="brief-workers-0-1").get_by_text("Running").wait_for()
    page.get_by_role("link", name="Cancel").click()
    page.get_by_text("Each of its 2 workers").wait_for()
    page.get_by_role("link", name="Leave it as it is").click()
    title.get_by_text("Running").wait_for()
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    page.get_by_text("brief cancelled", exact=True).wait_for()
    title.get_by_text("Cancelled").wait_for()
    assert page.get_by_role("link", name="Hold").count() == 0
    page.get_by_text("cancelled", exact=True).wait_for()  # the last moment of its life
    assert visitor.complaints == []


def test_output_is_followed_searched_and_downloaded(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    visitor.complaints.clear()
    page = visitor.open("/ui/jobs/default/talk/output?rank=0")
    lines = page.locator("#output-lines > div")
    page.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    page.locator("#output .err").get_by_text("careful").wait_for()
    assert page.locator("img:not(.brand img)").count() == 0
    assert lines.count() == 202
    to_the_end = page.evaluate(
        "(o => o.scrollHeight - o.scrollTop - o.clientHeight)(document.getElementById('output'))"
    )
    assert to_the_end < 5, "the page follows the end"
    page.get_by_label("Search").fill("step 1.0$")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("search="))
    page.get_by_text("step 190").wait_for()
    assert lines.count() == 10
    with page.expect_download() as download:
        page.get_by_role("link", name="Download all").click()
    assert download.value.suggested_filename == "talk-0.log"
    assert "step 200\n" in download.value.path().read_text()
    assert visitor.complaints == []


def test_output_is_gone_once_its_viewer_has_signed_out_elsewhere(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    output = visitor.context.new_page()
    output.goto(f"{visitor.url}/ui/jobs/default/talk/output")
    output.get_by_text("step 200").first.wait_for()
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.page.get_by_role("heading", name="Sign in").wait_for()
    output.get_by_text("You are signed out.").wait_for()
    assert output.locator("main").inner_text() == "", "what the viewer might see is gone"


def test_the_output_of_a_deleted_job_leads_to_the_job_that_gets_its_name(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    visitor.complaints.clear()
    run = ("run", "--detach", "--name", "again", "--", "sh", "-c")
    cluster(*run, "echo the first; sleep 1000")
    page = visitor.open("/ui/jobs/default/again/output")
    page.get_by_text("the first").wait_for()
    cluster("cancel", "--delete", "again")
    page.get_by_text("the job was deleted", exact=True).wait_for()
    page.evaluate(HIDE)  # it leaves its stream, and opens one about the deleted job
    page.evaluate(SHOW)
    cluster(*run, "echo the second")
    page.get_by_role("link", name="show its output").wait_for()
    page.get_by_text("the first").wait_for()  # until the viewer leaves
    page.get_by_role("link", name="show its output").click()
    page.get_by_text("the second").wait_for()
    assert visitor.complaints == []


def test_a_job_is_held_released_and_gets_another_priority_on_its_page(cluster: Muster, visit: Visit) -> None:
    cluster("apply", "-f", "-", input=PRIORITIES)
    cluster("run", "--detach", "--name", "patient", "--workers", "200", "--cpus", "1", "--", "sleep", "1")
    visitor = visit(cluster)
    page = visitor.open("/ui/jobs/default/patient")
    page.get_by_role("link", name="Hold").click()
    page.get_by_text("None of its workers runs").wait_for()
    page.get_by_role("button", name="Hold the job").click()
    state = page.locator(".title .state")
    state.get_by_text("Held").wait_for()
    page.get_by_role("link", name="Release").click()
    page.get_by_text("The job queues again").wait_for()
    page.get_by_role("button", name="Release the job").click()
    state.get_by_text("Queued").wait_for()
    page.get_by_role("link", name="Change the priority").click()
    page.get_by_label("Priority").select_option("urgent")
    page.get_by_role("button", name="Change the priority").click()
    page.get_by_text("1000 (urgent)").wait_for()
    assert visitor.complaints == []


def test_one_trial_of_a_sweep_is_cancelled_and_the_others_go_on(cluster: Muster, visit: Visit) -> None:
    cluster("run", "--detach", "--name", "sweep", "--array", "0-2", "--", "sleep", "1000")
    visitor = visit(cluster)
    page = visitor.open("/ui/jobs/default/sweep")
    rows = page.get_by_role("row")
    page.get_by_role("link", name="Cancel trial 1").click()
    page.get_by_text("The other trials continue").wait_for()
    page.get_by_role("button", name="Cancel the trials").click()
    rows.filter(has=page.get_by_role("link", name="1", exact=True)).get_by_text("Cancelled").wait_for()
    rows.filter(has=page.get_by_role("link", name="2", exact=True)).get_by_text("Running").wait_for()
    cluster("cancel", "sweep")
    assert visitor.complaints == []


def test_a_tab_in_the_background_has_no_stream_open(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open("/ui/jobs")
    streams = "performance.getEntriesByType('resource').filter(one => one.name.includes('/ui/live')).length"
    page.get_by_role("link", name="talk", exact=True).wait_for()
    assert page.evaluate(f"(() => {{ {HIDE} }})()") is None
    page.wait_for_function(f"{streams} == 1")  # an entry comes once its request has ended
    page.evaluate("performance.clearResourceTimings()")
    cluster("run", "--detach", "--name", "unseen", "--", "sleep", "1000")
    assert page.get_by_role("link", name="unseen", exact=True).count() == 0
    page.evaluate(f"(() => {{ {SHOW} }})()")
    page.get_by_role("link", name="unseen", exact=True).wait_for()
    cluster("cancel", "unseen")


def test_a_job_that_waits_has_written_nothing_yet(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open("/ui/jobs/default/waits/output")
    page.get_by_text("There is no output so far.").wait_for()
    page.get_by_text("Queued").wait_for()


def test_without_scripts_the_last_lines_are_there(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster, java_script_enabled=False).open("/ui/jobs/default/talk/output")
    page.get_by_role("link", name="show the last lines").click()
    page.get_by_text("step 200").first.wait_for()


PAGES = {
    "job": "/ui/jobs/default/talk",
    "job-waits": "/ui/jobs/default/waits",
    "sweep": "/ui/jobs/default/tune",
    "output": "/ui/jobs/default/talk/output",
    "cancel": "/ui/jobs/default/talk/cancel",
    "retry": "/ui/jobs/default/tune/retry",
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_the_pages_of_a_job(
    cluster: Muster, visit: Visit, pictures: Path | None, name: str, look: str
) -> None:
    visitor = visit(cluster, **LOOKS[look])
    page = visitor.open(PAGES[name])
    page.wait_for_load_state()
    if name == "output":
        page.get_by_text("step 200").first.wait_for()
    assert visitor.check_accessibility() == []
    sideways = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    assert not sideways, "the page does not scroll sideways"
    visitor.picture(f"{name}-{look}", pictures)
