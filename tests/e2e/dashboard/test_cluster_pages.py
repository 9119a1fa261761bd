"""The overview, queues and nodes in a real browser: live, changed from the page, and usable by everybody."""

from pathlib import Path

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import Visit
from tests.e2e.dashboard.test_pages import LOOKS


@pytest.fixture(scope="module")
def cluster(shared_muster: Muster) -> Muster:
    """A cluster with two queues of a cohort, one of which borrows, jobs that run and wait, and a queue astray."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated:6,cpu=8,memory=32Gi,nvidia.com/gpu=4")
    shared_muster("queue", "create", "vision", "--cpus", "8", "--cohort", "lab")
    shared_muster("queue", "create", "speech", "--cpus", "24", "--cohort", "lab")
    shared_muster("apply", "-f", "-", input=ASTRAY)
    shared_muster(
        "run",
        "--detach",
        "--name",
        "train",
        "--queue",
        "vision",
        "--workers",
        "16",
        "--cpus",
        "1",
        "--",
        "sleep",
        "1000",
    )
    shared_muster(
        "run",
        "--detach",
        "--name",
        "large",
        "--queue",
        "vision",
        "--workers",
        "24",
        "--cpus",
        "1",
        "--",
        "sleep",
        "1000",
    )
    return shared_muster


ASTRAY = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: astray, namespace: default}
spec: {clusterQueue: nothing-there}
"""


def test_the_overview_names_what_is_configured_wrongly(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    page = visitor.open("/ui/")
    page.get_by_text("LocalQueue astray of namespace default names ClusterQueue nothing-there").click()
    page.get_by_role("heading", name="LocalQueue astray").wait_for()
    page.go_back()
    page.get_by_role("link", name="Jobs that run").wait_for()
    assert (
        "mend     LocalQueue astray of namespace default names ClusterQueue nothing-there" in cluster("status").stdout
    )
    assert visitor.complaints == []


def test_a_queue_is_stopped_and_changed_from_its_page_and_the_page_follows(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    page = visitor.open("/ui/queues")
    page.get_by_role("link", name="vision", exact=True).click()
    page.get_by_role("row").filter(has_text="large").get_by_text("insufficient unused quota").wait_for()
    page.get_by_role("link", name="Stop").click()
    page.get_by_text("1 job runs from it now").wait_for()
    page.get_by_role("button", name="Stop the queue").click()
    page.get_by_text("clusterqueue/vision stopped").wait_for()
    page.get_by_role("heading", name="Stopped").wait_for()
    cluster("queue", "resume", "vision", "--cluster")  # elsewhere, while the page is open
    page.get_by_role("heading", name="Active").wait_for()
    page.get_by_role("link", name="Edit quota").click()
    page.get_by_label("cpu of flavor").fill("many")
    page.get_by_role("button", name="Change the quota").click()
    page.get_by_text("'many' is no quantity").wait_for()
    page.go_back()
    page.get_by_label("cpu of flavor").fill("64")
    page.get_by_role("button", name="Change the quota").click()
    page.get_by_text("The quota of ClusterQueue vision has changed").wait_for()
    page.get_by_role("row").filter(has_text="large").get_by_text("Running").wait_for()
    assert [one for one in visitor.complaints if "422" not in one] == []


def test_a_node_is_cordoned_from_its_page(cluster: Muster, visit: Visit) -> None:
    visitor = visit(cluster)
    page = visitor.open("/ui/nodes?by=job")
    page.get_by_title("sim-5", exact=False).first.click()
    page.get_by_role("heading", name="Node sim-5").wait_for()
    page.get_by_role("link", name="Cordon").click()
    page.get_by_role("button", name="Cordon the node").click()
    page.get_by_role("heading", name="Ready, Cordoned").wait_for()
    assert "sim-5" in cluster("status").stdout
    page.get_by_role("link", name="Uncordon").click()
    page.get_by_role("button", name="Uncordon the node").click()
    page.get_by_text("new pods may start there").wait_for()
    assert visitor.complaints == []


PAGES = {
    "overview": "/ui/",
    "queues": "/ui/queues",
    "local-queues": "/ui/queues?show=local",
    "queue": "/ui/queues/cluster/vision",
    "quota": "/ui/queues/cluster/vision/quota",
    "nodes": "/ui/nodes",
    "nodes-by-job": "/ui/nodes?by=job",
    "node": "/ui/nodes/sim-0",
    "no-queue": "/ui/queues/default/none",
}


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_the_pages(cluster: Muster, visit: Visit, pictures: Path | None, look: str) -> None:
    visitor = visit(cluster, **LOOKS[look])
    for name, path in PAGES.items():
        page = visitor.open(path)
        page.wait_for_load_state()
        assert visitor.check_accessibility() == [], name
        sideways = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        assert not sideways, f"{name} does not scroll sideways"
        visitor.picture(f"{name}-{look}", pictures)
