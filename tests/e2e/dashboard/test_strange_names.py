"""Names as long as Kubernetes allows, and texts that turn the direction of writing or hold markup."""

import json
import re

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.dashboard.conftest import PHONE, WIDE, Visit

JOB = "x" * 63
QUEUE = ".".join(["y" * 61] * 4)
NODE = ".".join(["z" * 62] * 4)
TURNED = "\u202egnp.exe\u202c\u200f\u2066"
MARKUP = "<b>bold</b><!--/piece--><!--piece x-->"

OBJECTS = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {QUEUE}}}
spec:
  namespaceSelector: {{}}
  cohortName: {"c" * 63}
  resourceGroups:
  - coveredResources: ["example.com/{"r" * 63}"]
    flavors:
    - name: muster-nodes
      resources: [{{name: "example.com/{"r" * 63}", nominalQuota: 1e30}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {JOB}, namespace: default}}
spec: {{clusterQueue: {QUEUE}}}
---
apiVersion: v1
kind: Node
metadata: {{name: {NODE}, labels: {{"example.com/{"l" * 63}": "{"v" * 63}"}}}}
spec: {{taints: [{{key: "example.com/{"t" * 63}", value: "{"v" * 63}", effect: NoSchedule}}]}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {JOB}
  labels: {{kueue.x-k8s.io/queue-name: {JOB}}}
  annotations: {{note: "{TURNED} {MARKUP}", "muster.dev/submitter": "{TURNED}", empty: ""}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: none, command: ["{TURNED}", "{MARKUP}", ""]}}]
"""

EVENT = f"""
apiVersion: v1
kind: Event
metadata: {{name: strange.1}}
involvedObject: {{apiVersion: batch/v1, kind: Job, name: {JOB}, namespace: default, uid: %s}}
reason: "{TURNED}"
message: "{TURNED} {MARKUP} {"w" * 1000}"
lastTimestamp: "2026-01-01T00:00:00Z"
"""

PAGES = (
    "/ui/",
    "/ui/jobs",
    "/ui/jobs?columns=all",
    f"/ui/jobs/default/{JOB}",
    f"/ui/jobs/default/{JOB}/cancel",
    f"/ui/jobs/default/{JOB}/output",
    "/ui/queues",
    "/ui/queues?show=local",
    f"/ui/queues/cluster/{QUEUE}",
    f"/ui/queues/cluster/{QUEUE}/quota",
    f"/ui/queues/default/{JOB}",
    "/ui/nodes",
    f"/ui/nodes/{NODE}",
    "/ui/history",
    f"/ui/jobs?text={TURNED}&namespace={MARKUP}",
    f"/ui/jobs/{TURNED}/{MARKUP}",
)


@pytest.fixture(scope="module")
def cluster(shared_muster: Muster) -> Muster:
    """A cluster whose objects have strange names."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated:1,cpu=8")
    shared_muster("apply", "-f", "-", input=OBJECTS)
    [job] = json.loads(shared_muster("ps", "-o", "json").stdout)
    shared_muster("apply", "-f", "-", input=EVENT % job["uid"])
    return shared_muster


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_pages_are_whole_with_the_longest_names(cluster: Muster, visit: Visit, size: dict[str, int]) -> None:
    visitor = visit(cluster, viewport=size)
    for path in PAGES:
        page = visitor.open(path)
        assert page.get_by_role("heading", level=1).count() == 1, path
        assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth"), path
        assert page.locator("main b").count() == 0, path
        assert "Traceback" not in page.content(), path
    assert [one for one in visitor.complaints if not re.search("40[04]", one)] == []


def test_a_text_that_turns_the_direction_of_writing_turns_nothing_else(cluster: Muster, visit: Visit) -> None:
    page = visit(cluster).open(f"/ui/jobs/default/{JOB}")
    row = page.get_by_role("region", name="Events").get_by_role("row").filter(has_text=MARKUP)
    cells = row.get_by_role("cell")
    left = [box["x"] for number in range(cells.count()) if (box := cells.nth(number).bounding_box())]
    assert left == sorted(left)
    assert page.evaluate(
        "[...document.querySelectorAll('td, th, li, dd, small, span, a')]"
        ".every(one => getComputedStyle(one).unicodeBidi !== 'normal')"
    )
