"""Pages about what is elsewhere, in a real browser: worker clusters of MultiKueue, and reports of simulations."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Muster, closing
from tests.e2e.dashboard.conftest import Visit
from tests.e2e.dashboard.test_pages import LOOKS

SCENARIO = "examples/simulate/two-teams.yaml"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def manager(shared_muster: Muster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """A manager of two clusters, of which one has a job and the other is lost, with the report of a simulation."""
    folder = tmp_path_factory.mktemp("workers")
    with closing(folder / "near") as near, closing(folder / "far") as far:
        shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated:1,cpu=4,memory=8Gi")
        shared_muster("queue", "create", "shared", "--cpus", "6")
        for name, worker, cpus in (("near", near, 2), ("far", far, 4)):
            worker("up", "--detach", "--port", "0", "--nodes", f"simulated:1,cpu={cpus},memory=8Gi")
            worker("queue", "create", "shared", "--cpus", str(cpus))
            kubeconfig = worker("cluster", "invite").stdout
            shared_muster("cluster", "join", name, "--kubeconfig", "-", "--queue", "shared", input=kubeconfig)
        gang = ("--queue", "shared", "--cpus", "1", "--workers")
        shared_muster("run", "--detach", "--name", "large", *gang, "4", "--", "sleep", "1000")
        await_running(shared_muster, "large")
        shared_muster("run", "--detach", "--name", "small", *gang, "2", "--", "sleep", "1000")
        await_running(shared_muster, "small")
        far("down", "--yes")
        report = shared_muster.home / "simulations" / "two-teams"
        shared_muster("simulate", SCENARIO, "--report", str(report))
        yield shared_muster


def await_running(muster: Muster, job: str) -> None:
    """Return once a job runs."""
    while (job, "Running") not in [
        (one["name"], one["state"]) for one in json.loads(muster("ps", "-o", "json").stdout)
    ]:
        time.sleep(0.5)


def test_a_lost_cluster_is_named_with_the_reason_and_the_jobs_there(manager: Muster, visit: Visit) -> None:
    visitor = visit(manager)
    page = visitor.open("/ui/clusters")
    rows = page.get_by_role("row")
    rows.filter(has_text="near").get_by_text("Connected").wait_for()
    lost = rows.filter(has_text="far")
    lost.get_by_text("Lost").wait_for()
    lost.get_by_text("tries again by itself").wait_for()
    page.get_by_role("heading", name="Jobs in near").wait_for()
    page.get_by_role("link", name="default/small").click()
    page.get_by_role("heading", name="small").wait_for()
    assert visitor.complaints == []


def test_a_report_opens_in_a_sandbox_and_leads_nowhere_else(manager: Muster, visit: Visit) -> None:
    visitor = visit(manager)
    page = visitor.open("/ui/simulations")
    page.get_by_role("link", name="two-teams").click()
    page.get_by_role("heading").first.wait_for()
    assert page.evaluate("() => { try { return document.cookie } catch (error) { return error.name } }") == (
        "SecurityError"
    )
    page.go_back()
    page.get_by_role("heading", name="Simulations").wait_for()


PAGES = {"clusters": "/ui/clusters", "simulations": "/ui/simulations", "report": "/ui/simulations/two-teams"}


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_the_pages(manager: Muster, visit: Visit, pictures: Path | None, look: str) -> None:
    visitor = visit(manager, **LOOKS[look])
    for name, path in PAGES.items():
        page = visitor.open(path)
        page.wait_for_load_state()
        if name == "clusters":
            page.get_by_text("Lost", exact=True).wait_for()
        assert visitor.check_accessibility() == [], name
        sideways = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert not sideways, f"{name} does not scroll sideways"
        visitor.picture(f"{name}-{look}", pictures)
