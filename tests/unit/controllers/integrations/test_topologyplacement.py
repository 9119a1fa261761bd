"""Which pod of an admitted workload goes where: by its rank, which may be counted from another number."""

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.kueue import Workload
from muster.controllers.integrations.topologyplacement import selectors_of

HOST = "kubernetes.io/hostname"
INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
OFFSET = "kueue.x-k8s.io/pod-index-offset"


def slice_of(host):
    return {"domainCount": 1, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": host}]}


def placed(*, asks=True):
    request = {"required": HOST, "podIndexLabel": INDEX} if asks else None
    podset = {"name": "worker", "count": 3, "template": {"spec": {}}, "topologyRequest": request}
    places = {"levels": [HOST], "slices": [slice_of(host) for host in ("a", "b", "c")]}
    assigned = {"name": "worker", "count": 3, "topologyAssignment": places}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assigned]}
    return msgspec.convert({"spec": {"podSets": [podset]}, "status": {"admission": admission}}, Workload)


def pod(index, offset=""):
    annotations = {OFFSET: offset} if offset else {}
    metadata = {"name": f"p-{index}", "uid": str(index), "labels": {INDEX: str(index)}, "annotations": annotations}
    return msgspec.convert({"metadata": metadata}, Pod)


@pytest.mark.parametrize(("first", "offset"), [(0, ""), (1, "1"), (5, "5"), (0, "x")])
def test_pods_follow_their_ranks_from_the_number_that_they_are_counted_from(first, offset):
    pods = [pod(index, offset) for index in range(first, first + 3)]
    told = selectors_of(placed(), pods[::-1], lambda pod: "worker", lambda pod: True)
    assert [told[one.metadata.uid][HOST] for one in pods] == ["a", "b", "c"]


def test_a_pod_before_the_first_rank_has_none():
    pods = [pod(0, "1"), pod(1, "1"), pod(2, "1")]
    told = selectors_of(placed(), pods, lambda pod: "worker", lambda pod: True)
    assert sorted(one[HOST] for one in told.values()) == ["a", "b", "c"]


@pytest.mark.parametrize("waiting", ["xyz", "yz", "z"])
def test_pods_of_several_jobs_that_ask_for_no_place_share_the_domains(waiting):
    """Each job counts its pods from 0. Those that wait no longer have the first domains."""

    def member(uid, host, index):
        labels = {"batch.kubernetes.io/job-completion-index": index}
        selector = {} if uid in waiting else {HOST: host}
        return msgspec.convert(
            {"metadata": {"name": uid, "uid": uid, "labels": labels}, "spec": {"nodeSelector": selector}}, Pod
        )

    pods = [member("x", "a", "0"), member("y", "b", "1"), member("z", "c", "0")]
    selectors = selectors_of(placed(asks=False), pods, lambda pod: "worker", lambda pod: pod.metadata.uid in waiting)
    assert {uid: selector[HOST] for uid, selector in selectors.items()} == dict(
        zip(waiting, "abc"[-len(waiting) :], strict=True)
    )
