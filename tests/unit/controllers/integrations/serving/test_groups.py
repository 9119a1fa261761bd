"""Which Workloads a StatefulSet or a LeaderWorkerSet has: as many as it has groups, under Kueue's names."""

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.integrations.serving.groups import (
    LEADER_WORKER_SETS,
    STATEFUL_SETS,
    GroupsPlan,
    plan_groups,
)
from muster.queueing.jobframework.names import workload_name

PODS = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
LEGACY = workload_name("StatefulSet", "apps", "web", "")


def found(spec, **status):
    document = {"metadata": {"name": "web", "uid": "u"}, "spec": spec, "status": status}
    return msgspec.convert(document, ExternalJob)


def workload(name, size=3, *, reserved=False):
    podset = {"name": "main", "count": size, "template": PODS}
    conditions = [{"type": "QuotaReserved", "status": "True" if reserved else "False"}]
    document = {"metadata": {"name": name}, "spec": {"podSets": [podset]}, "status": {"conditions": conditions}}
    return msgspec.convert(document, Workload)


def test_workloads_are_made_kept_and_deleted_with_the_groups():
    a, b, gone = workload("a"), workload("b"), workload("gone")
    assert plan_groups(["a", "b"], [a, b], [], 3) == GroupsPlan()
    assert plan_groups(["a", "c"], [a, gone], [], 3) == GroupsPlan(create=("c",), delete=(gone,))
    assert plan_groups(["a"], [], [a], 3) == GroupsPlan(join=(a,))


def test_a_group_in_another_size_is_made_anew_once_its_workload_is_gone():
    small = workload("a", 2)
    assert plan_groups(["a"], [small], [], 3) == GroupsPlan(delete=(small,))
    assert plan_groups(["a"], [workload("a", 2, reserved=True)], [], 3) == GroupsPlan(), "what runs goes on"


@pytest.mark.parametrize(("replicas", "there", "names"), [(None, (), 1), (3, (), 1), (0, (), 0)])
def test_a_statefulset_is_one_group_or_none(replicas, there, names):
    spec = {} if replicas is None else {"replicas": replicas}
    assert len(STATEFUL_SETS.names(found(spec), there.__contains__)) == names


def test_a_group_of_an_older_kueue_keeps_its_name_while_there_is_no_other():
    current = workload_name("StatefulSet", "apps", "web", "u")
    for there, name in (((), current), ((LEGACY,), LEGACY), ((LEGACY, current), current)):
        assert STATEFUL_SETS.names(found({}), there.__contains__) == [name]


def test_groups_that_a_manager_has_sent_have_its_names():
    labels = {"kueue.x-k8s.io/multikueue-origin": "m"}
    metadata = {"name": "web", "uid": "here", "labels": labels}
    metadata["annotations"] = {"kueue.x-k8s.io/multikueue-origin-uid": "u"}
    sent = msgspec.convert({"metadata": metadata}, ExternalJob)
    for groups in (STATEFUL_SETS, LEADER_WORKER_SETS):
        assert groups.names(sent, lambda name: False) == groups.names(found({}), lambda name: False)


@pytest.mark.parametrize(
    ("surge", "status", "groups"),
    [
        (None, {"replicas": 3, "updatedReplicas": 0}, 2),
        (1, {"replicas": 3, "updatedReplicas": 0}, 3),
        (1, {"replicas": 3, "updatedReplicas": 2}, 2),
        (0, {"replicas": 3, "updatedReplicas": 0}, 2),
    ],
)
def test_a_rolling_update_has_groups_to_spare(surge, status, groups):
    rollout = {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": surge}}}
    names = LEADER_WORKER_SETS.names(found({"replicas": 2, **rollout}, **status), lambda name: False)
    assert len(names) == len(set(names)) == groups


def test_podsets_do_not_say_what_each_pod_is_told_by_its_set():
    labels = {"leaderworkerset.sigs.k8s.io/name": "web", "leaderworkerset.sigs.k8s.io/group-index": "1", "a": "b"}
    worker = {"metadata": {"labels": labels}, **PODS}
    spec = {"leaderWorkerTemplate": {"size": 3, "leaderTemplate": PODS, "workerTemplate": worker}}
    leader, rest = LEADER_WORKER_SETS.podsets(found(spec))
    assert [(one.name, one.count) for one in (leader, rest)] == [("leader", 1), ("worker", 2)]
    assert rest.template.metadata.labels == {"leaderworkerset.sigs.k8s.io/name": "web", "a": "b"}
