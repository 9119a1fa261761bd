"""A cluster of many nodes and jobs in a real browser: 1,000 of each, and 5,000 with `--long`."""

from pathlib import Path

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import Visit

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

COUNT, LONG_COUNT = 1_000, 5_000
ON_PAGE = 100
# The pages that list or add up all of it.
PAGES = ("/ui/", "/ui/jobs", "/ui/jobs?page={last}", "/ui/queues/cluster/small", "/ui/nodes", "/ui/nodes?by=job")
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


@pytest.fixture
def count(long: bool) -> int:
    """The number of nodes, and of jobs."""
    return LONG_COUNT if long else COUNT


@pytest.fixture
def cluster(muster: Muster, count: int) -> Muster:
    """A cluster with room for four of its jobs."""
    nodes = f"simulated:{count},cpu=8,memory=32Gi"
    muster("up", "--detach", "--port", "0", "--nodes", nodes, timeout=300)
    muster("queue", "create", "small", "--cpus", "8")
    muster("apply", "-f", "-", input="".join(JOB % number for number in range(count)), timeout=600)
    return muster


def test_many_jobs_and_nodes_are_found_watched_and_usable(
    cluster: Muster, count: int, visit: Visit, pictures: Path | None
) -> None:
    visitor = visit(cluster)
    for number, path in enumerate(PAGES):
        page = visitor.open(path.format(last=count // ON_PAGE))
        page.wait_for_load_state()
        assert visitor.check_accessibility() == [], path
        visitor.picture(f"large-{number}", pictures)
    page = visitor.open("/ui/nodes")
    assert page.locator(".cells a").count() == count
    page = visitor.open("/ui/jobs")
    page.get_by_text(f"1 to {ON_PAGE} of {count}").wait_for()
    page.get_by_role("link", name="more").click()
    page.get_by_text(f"{ON_PAGE + 1} to {2 * ON_PAGE} of {count}").wait_for()
    job = f"train-{count - 13}"
    page = visitor.open(f"/ui/jobs?text={job}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=job, exact=True))
    row.get_by_text("Queued").wait_for()
    cluster("cancel", job)
    row.get_by_text("Cancelled").wait_for()
    assert visitor.complaints == []
