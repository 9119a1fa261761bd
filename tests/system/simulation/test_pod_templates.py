"""A Pod may be the template of jobs: alone, as one of a Kueue pod group, or with a PodGroup."""

import pytest
from tests.system.simulation.test_full_engine import REQUESTS, play, queue, times, work

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
