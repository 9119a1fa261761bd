"""Pods of elastic Jobs: which of them wait for quota."""

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.jobs.job.quota import add_gate, is_gated, may_go, must_wait
from muster.jobs.job.terms import JobTerms


def terms(parallelism=4, completions=4, mode="Indexed"):
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": mode}
    return JobTerms.of(msgspec.convert({"spec": {k: v for k, v in spec.items() if v is not None}}, Job))


def pod(name, index=None, *, gated=True, phase="Pending"):
    gates = [{"name": "kueue.x-k8s.io/elastic-job"}] if gated else [{"name": "other"}]
    annotations = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    document = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulingGates": gates},
        "status": {"phase": phase},
    }
    return msgspec.convert(document, Pod)


def names(pods):
    return [one.metadata.name for one in pods]


@pytest.mark.parametrize(("index", "waits"), [(0, False), (1, False), (2, True), (3, True), (None, True)])
def test_of_an_indexed_job_the_lowest_indexes_run(index, waits):
    assert must_wait(pod("p", index), terms(), 2) is waits


@pytest.mark.parametrize(
    ("parallelism", "completions", "granted", "waits"),
    [(4, None, 4, False), (4, None, 3, True), (4, 2, 2, False), (4, 9, 3, True)],
)
def test_pods_without_an_index_wait_as_long_as_more_is_wanted_than_granted(parallelism, completions, granted, waits):
    assert must_wait(pod("p"), terms(parallelism, completions, "NonIndexed"), granted) is waits


def test_indexed_pods_go_by_their_index():
    pods = [pod("a", 0), pod("c", 2), pod("b", 1, gated=False), pod("d", 3)]
    assert names(may_go(pods, terms(), 3)) == ["a", "c"]


def test_others_go_in_order_as_many_as_are_granted():
    pods = [pod("a", gated=False), pod("b"), pod("c"), pod("d"), pod("done", gated=False, phase="Succeeded")]
    assert names(may_go(pods, terms(4, 9, "NonIndexed"), 3)) == ["b", "c"]
    assert names(may_go(pods, terms(4, 9, "NonIndexed"), 0)) == []


def test_other_gates_are_not_ours():
    assert not is_gated(pod("p", gated=False))
    assert is_gated(pod("p"))


@pytest.mark.parametrize("gates", [None, [{"name": "other"}], [{"name": "kueue.x-k8s.io/elastic-job"}]])
def test_a_pod_gets_the_gate_once(gates):
    spec = {} if gates is None else {"schedulingGates": gates}
    add_gate(spec)
    assert [gate["name"] for gate in spec["schedulingGates"]].count("kueue.x-k8s.io/elastic-job") == 1
