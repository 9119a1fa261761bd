"""A cluster of 5,000 nodes and 5,000 jobs in a real browser."""

from pathlib import Path

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import Visit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 5_000
# The pages that list or add up all of it.
PAGES = ("/ui/", "/ui/jobs", "/ui/jobs?page=50", "/ui/queues/cluster/small", "/ui/nodes", "/ui/nodes?by=job")
JOB = """---
apiVersion: batch/v1
kind: Job
metadata: {name: train-%d, labels: {kueue.x-k8s.io/queue-name: small}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: none, command: [sleep, "1000"], resources: {requests: {cpu: "2"}}}]
"""


@pytest.fixture(scope="module")
def cluster(shared_muster: Muster) -> Muster:
    """A cluster with room for four of its jobs."""
    nodes = f"simulated:{COUNT},cpu=8,memory=32Gi"
    shared_muster("up", "--detach", "--port", "0", "--nodes", nodes, timeout=300)
    shared_muster("queue", "create", "small", "--cpus", "8")
    shared_muster("apply", "-f", "-", input="".join(JOB % number for number in range(COUNT)), timeout=600)
    return shared_muster


def test_many_jobs_and_nodes_are_found_watched_and_usable(cluster: Muster, visit: Visit, pictures: Path | None) -> None:
    visitor = visit(cluster)
    for number, path in enumerate(PAGES):
        page = visitor.open(path)
        page.wait_for_load_state()
        assert visitor.check_accessibility() == [], path
        visitor.picture(f"large-{number}", pictures)
    page = visitor.open("/ui/nodes")
    assert page.locator(".cells a").count() == COUNT
    page = visitor.open("/ui/jobs")
    page.get_by_text(f"1 to 100 of {COUNT}").wait_for()
    page.get_by_role("link", name="more").click()
    page.get_by_text(f"101 to 200 of {COUNT}").wait_for()
    page = visitor.open("/ui/jobs?text=train-4321")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="train-4321", exact=True))
    row.get_by_text("Queued").wait_for()
    cluster("cancel", "train-4321")
    row.get_by_text("Cancelled").wait_for()
    assert visitor.complaints == []
