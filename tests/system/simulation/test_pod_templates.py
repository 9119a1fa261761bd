"""A Pod may be the template of jobs: alone, as one of a Kueue pod group, or with a PodGroup."""

import pytest
from tests.system.simulation.test_full_engine import REQUESTS, job, play, queue, times, work

from muster.simulation.scenario.source import ScenarioError


def pod(count=None, **spec):
    """A Pod; with a count, one of a Kueue pod group."""
    meta = {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}} if count else {}
    if count:
        meta["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(count)}
    whole = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", **REQUESTS}]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole}


@pytest.mark.parametrize(("count", "size", "pods"), [(None, {}, 1), (3, {}, 3), (3, {"size": 2}, 2)])
def test_a_pod_is_the_template_of_a_group_of_equal_pods(tmp_path, count, size, pods):
    """Quota for one group and a part of another one: the second waits for all of its pods."""
    works = [work("a", [10, 20], 100, queue="q", template=pod(count), **size)]
    report = play(tmp_path, works, queue("q", 2 * pods - 1), engine="fast")
    assert times(report) == [("a-0", 10, 110), ("a-1", 110, 210)]
    assert [one.pods for one in report.jobs] == [pods, pods]


def test_pods_of_a_group_start_together_on_nodes_and_have_their_own_time_limit(tmp_path):
    nodes = [{"name": "n", "count": 3, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    works = [
        work("first", [0], 100, template=pod()),
        work("group", [10], 1000, template=pod(3, activeDeadlineSeconds=60), queue="q"),
    ]
    report = play(tmp_path, works, queue("q", 3), engine="fast", nodes=nodes)
    assert times(report) == [("first-0", 0, 100), ("group-0", 100, 160)]


def make_job_of(template):
    """A Job of three pods like this one."""
    pods = {key: template[key] for key in ("metadata", "spec")}
    return job(parallelism=3, completions=3, template=pods)


@pytest.mark.parametrize(
    ("make_template", "engine"),
    [(dict, "fast"), (make_job_of, "fast"), (make_job_of, "full")],
    ids=["pods", "a Job", "whole"],
)
def test_pods_that_keep_apart_have_a_node_each(tmp_path, make_template, engine):
    """Three pods with anti-affinity to each other wait for a third node."""
    pools = {"n": 2, "late": 0}
    template = {"status": {"allocatable": {"cpu": "4"}}}
    nodes = [{"name": name, "count": count, "template": template} for name, count in pools.items()]
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    group = pod(3, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}})
    group["metadata"]["labels"]["app"] = "x"
    changes = [{"at": 50, "scale": {"pool": "late", "count": 1}}]
    works = [work("a", [10], 100, template=make_template(group))]
    report = play(tmp_path, works, engine=engine, nodes=nodes, changes=changes)
    assert times(report) == [("a-0", 50, 150)]


def test_a_group_whose_podgroup_says_another_size_is_refused(tmp_path):
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}}
    with pytest.raises(ScenarioError, match=r"work\[0\]\.podGroup\.spec: its minimum is 3, but"):
        play(tmp_path, [work("a", [10], 100, template=pod(2), podGroup=group)], engine="fast")


def test_a_podgroup_alone_has_no_pods(tmp_path):
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}}
    with pytest.raises(ScenarioError, match="a PodGroup cannot be simulated: name it as podGroup, with"):
        play(tmp_path, [work("a", [10], 100, template=group)], engine="fast")


def test_the_whole_engine_plays_no_groups_of_pods(tmp_path):
    with pytest.raises(ScenarioError, match=r"work\[0\]\.template\.kind: groups of pods are simulated by the fast"):
        play(tmp_path, [work("a", [10], 100, queue="q", template=pod(3))], queue("q", 3), engine="full")


def test_pods_of_a_podgroup_wait_for_all_of_their_nodes(tmp_path):
    nodes = [{"name": "n", "count": 3, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}}
    works = [
        work("first", [0], 100, template=pod()),
        work("group", [10], 100, template=pod(), podGroup=group),
    ]
    report = play(tmp_path, works, engine="fast", nodes=nodes)
    assert times(report) == [("first-0", 0, 100), ("group-0", 100, 200)]
