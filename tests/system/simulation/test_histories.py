"""Whole scenarios that replay what ran."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from muster.insight.history.runs import PodRequests, Run, make_row
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.simulate import simulate

START = datetime(2026, 1, 1, tzinfo=UTC)
SCENARIO = """apiVersion: muster.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  work:
  - history: ran.jsonl
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: lab}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "4"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: train, namespace: lab}
spec: {clusterQueue: cq}
"""


def make_run(name, submitted, started, ended, pods=1, cpu="1", queue="train", **more):
    def at(seconds):
        return None if seconds is None else START + timedelta(seconds=seconds)

    return Run(
        uid=name,
        namespace="lab",
        name=name,
        kind="Job",
        state="Completed",
        submitted=at(submitted),
        started=at(started),
        ended=at(ended),
        queue=queue,
        pod_requests=(PodRequests(pods, {"cpu": cpu}),),
        **more,
    )


def play(tmp_path, runs, scenario=SCENARIO):
    lines = b"\n".join(msgspec.json.encode(make_row(run)) for run in runs)
    (tmp_path / "ran.jsonl").write_bytes(lines)
    (tmp_path / "scenario.yaml").write_text(scenario)
    return simulate(str(tmp_path / "scenario.yaml"))


def test_runs_come_again_with_their_pods_queue_and_priority(tmp_path):
    runs = [
        make_run("second", 110, 500, 600, priority=5, owner="ada"),
        make_run("first", 100, 100, 150, pods=2, cpu="2"),
        make_run("third", 105, 700, 710, pods=4, limit_seconds=5),
        make_run("free", 100, 100, 150, pods=50, queue=""),
        make_run("never", 100, None, 150),
    ]
    report = play(tmp_path, runs)
    found = {job.name: (job.queue, job.pods, job.priority, job.started, job.ended) for job in report.jobs}
    assert found == {
        "history-first": ("cq", 2, 0, 0.0, 50.0),
        "history-free": ("", 50, 0, 0.0, 50.0),
        "history-second": ("cq", 1, 5, 50.0, 150.0),
        "history-third": ("cq", 4, 0, 150.0, 155.0),
    }
    assert report.remarks == ["history: 1 job of the log never ran, and is left out"]


def test_a_queue_that_no_manifest_defines_is_named(tmp_path):
    where = (
        r"scenario.yaml:6: spec.work\[0\]: no manifest defines the LocalQueue lab/other.*"
        r"; define it, or set `queue` of the work to one LocalQueue for all its jobs$"
    )
    with pytest.raises(ScenarioError, match=where):
        play(tmp_path, [make_run("a", 0, 0, 1, queue="other")])


def test_work_may_name_one_queue_for_all(tmp_path):
    scenario = SCENARIO.replace("  - history: ran.jsonl\n", "  - {history: ran.jsonl, queue: lab/train, name: w}\n")
    report = play(tmp_path, [make_run("a", 0, 0, 1, queue="other"), make_run("b", 0, 0, 1, queue="")], scenario)
    assert [(job.name, job.queue) for job in report.jobs] == [("w-a", "cq"), ("w-b", "cq")]


def test_a_line_that_is_no_run_is_named(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "ran.jsonl").write_text(msgspec.json.encode(make_row(make_run("a", 0, 0, 1))).decode() + "\n{\n")
    with pytest.raises(ScenarioError, match=r"ran.jsonl:2: is no run of `muster history -o jsonl`"):
        simulate(str(tmp_path / "scenario.yaml"))
