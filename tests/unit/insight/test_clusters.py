"""Worker clusters, as people see them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from muster.api.kueue import AdmissionCheck, ClusterQueue, MultiKueueCluster, MultiKueueConfig, Workload
from muster.insight.clusters import (
    NEVER_LOOKED_AT,
    WorkerClusterState,
    advise_on_cluster,
    clusters_of_queues,
    find_cluster_state,
    find_cluster_states,
    format_state,
    make_table,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def cluster(name="b", status="", reason="Active", message=""):
    said = {
        "type": "Active",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": NOW - timedelta(minutes=3),
    }
    return msgspec.convert(
        {"metadata": {"name": name}, "status": {"conditions": [said] if status else []}}, MultiKueueCluster
    )


def workload(name, home=None, tried=(), finished=False):
    conditions = [{"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}] if finished else []
    status = {"nominatedClusterNames": tried, "conditions": conditions} | ({"clusterName": home} if home else {})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
    meta = {"name": f"job-{name}", "namespace": "lab", "ownerReferences": [owner]}
    return msgspec.convert({"metadata": meta, "status": status}, Workload)


@pytest.mark.parametrize(
    ("found", "word", "reason"),
    [
        (cluster(), "Unknown", "no manager has looked at it yet"),
        (cluster(status="True", message="Connected"), "Connected", ""),
        (cluster(status="False", reason="BadKubeConfig", message="gone"), "Lost", "BadKubeConfig: gone"),
        (cluster(status="False", reason="BadKubeConfig"), "Lost", "BadKubeConfig"),
    ],
)
def test_the_word_for_it(found, word, reason):
    state = find_cluster_state(found, ())
    assert (state.word, state.reason) == (word, reason)
    assert state.since == (None if word == "Unknown" else NOW - timedelta(minutes=3))


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        (WorkerClusterState("b", "Connected"), ""),
        (WorkerClusterState("b", "Unknown", NEVER_LOOKED_AT), "muster status"),
        (
            WorkerClusterState("b", "Lost", "ClientConnectionFailed: cannot connect", server="https://b:6443"),
            "its server https://b:6443 runs",
        ),
        (WorkerClusterState("b", "Lost", "ClientConnectionFailed: cannot connect"), "See that its server runs"),
        (WorkerClusterState("b", "Lost", "ClientConnectionFailed: Unauthorized"), "muster cluster invite"),
        (WorkerClusterState("b", "Lost", "ClientConnectionFailed: it answered 403"), "muster cluster invite"),
        (WorkerClusterState("b", "Lost", "ClientConnectionFailed: 127.0.0.1:40317 refused"), "tries again by itself"),
        (WorkerClusterState("b", "Lost", "BadKubeConfig: gone"), "muster cluster join b --kubeconfig FILE"),
        (WorkerClusterState("b", "Lost", "InsecureKubeConfig: no CA"), "muster cluster join b --kubeconfig FILE"),
        (WorkerClusterState("b", "Lost", "BadClusterProfile: not found"), "ClusterProfile"),
        (WorkerClusterState("b", "Lost", "MultiKueueClusterProfileFeatureDisabled: off"), "feature gate"),
    ],
)
def test_a_cluster_that_cannot_be_used_comes_with_what_to_do(state, advice):
    advised = advise_on_cluster(state)
    assert advice in advised
    assert bool(advised) == (state.word != "Connected")


def test_what_runs_there_is_named_and_what_is_tried_there_counted():
    workloads = [
        workload("two", "b"),
        workload("one", "b"),
        workload("over", "b", finished=True),
        workload("elsewhere", "a"),
        workload("waits", tried=("a", "b")),
    ]
    state = find_cluster_state(cluster(status="True"), workloads, "https://b")
    assert (state.jobs, state.tried, state.server) == (("lab/one", "lab/two"), 1, "https://b")


def test_the_table_is_in_order_of_names():
    states = find_cluster_states([cluster("b", "True"), cluster("a")], [workload("one", "b")], {"b": "https://b"})
    header, lines = make_table(states, NOW)
    assert header == ["CLUSTER", "STATE", "SINCE", "JOBS", "WAITING", "SERVER", "REASON"]
    assert lines == [
        ["a", "Unknown", "-", "0", "0", "-", "no manager has looked at it yet"],
        ["b", "Connected", "3m", "1", "0", "https://b", ""],
    ]


def test_queues_that_send_their_jobs_are_known_by_their_checks():
    def queue(name, *checks):
        rules = {"admissionChecksStrategy": {"admissionChecks": [{"name": check} for check in checks]}}
        return msgspec.convert({"metadata": {"name": name}, "spec": rules if checks else {}}, ClusterQueue)

    def check(name, controller, config):
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": config}
        spec = {"controllerName": f"kueue.x-k8s.io/{controller}", "parameters": parameters}
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, AdmissionCheck)

    queues = [queue("here"), queue("there", "mk"), queue("both", "p", "mk"), queue("asks", "p"), queue("lost", "old")]
    checks = [check("mk", "multikueue", "c"), check("p", "provisioning-request", "c"), check("old", "multikueue", "x")]
    config = msgspec.convert({"metadata": {"name": "c"}, "spec": {"clusters": ["b", "a"]}}, MultiKueueConfig)
    assert clusters_of_queues(queues, checks, [config]) == {"there": ("b", "a"), "both": ("b", "a"), "lost": ()}


def test_as_json():
    state = WorkerClusterState("b", "Lost", "r", NOW, ("lab/one",), 2, "https://b")
    assert format_state(state) == {
        "name": "b",
        "state": "Lost",
        "since": NOW,
        "jobs": ["lab/one"],
        "tried": 2,
        "server": "https://b",
        "reason": "r",
    }
