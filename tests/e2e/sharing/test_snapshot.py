"""A running cluster goes on in a simulation: its state, and what ran there."""

import json
import time

SCENARIO = "apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"
QUEUE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: default}
spec: {clusterQueue: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: default}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "2"}]}]
"""


def summarize(muster, tmp_path, spec, after=""):
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO + spec + after)
    return json.loads(muster("simulate", str(file), "-o", "json").stdout)["total"]


def test_a_cluster_goes_on_in_a_simulation(muster, tmp_path):
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:2,cpu=2")
    for name in ("a", "b", "c"):
        muster("run", "--detach", "--name", name, "--workers", "2", "--cpus", "2", "--time", "10m", "--", "sleep", "60")
    for output in ("yaml", "json"):
        text = muster("snapshot", "--with-decisions", "-o", output).stdout
        assert "sleep" not in text
        assert "QuotaReserved" in text
        (tmp_path / f"state.{output}").write_text(text)
        total = summarize(muster, tmp_path, f"  state: state.{output}\n")
        assert (total["submitted"], total["ended"]) == (3, 3)
        assert 1100 < total["wait"]["longest"] <= 1210, "two jobs of ten minutes come first"
    muster("cancel", "a")
    deadline = time.monotonic() + 30
    while not (ran := muster("history", "-o", "jsonl", "a").stdout) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert json.loads(ran)["podRequests"] == [{"pods": 2, "requests": {"cpu": "2"}}]
    (tmp_path / "ran.jsonl").write_text(ran)
    total = summarize(muster, tmp_path, "  work: [{history: ran.jsonl}]\n", QUEUE.replace('"2"', '"4"'))
    assert total["submitted"] == 1
    muster("down")
