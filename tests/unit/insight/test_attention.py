"""What needs attention in a cluster, and what to do."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Node
from muster.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor
from muster.insight.attention import Scene, Trouble, find_troubles
from muster.insight.clusters import WorkerClusterState
from muster.insight.jobs.state import NeverVerdict


def node(name: str, ready: str = "True", labels: Any = None, **more: Any) -> Node:
    gpus = {"muster.dev/gpus": more.pop("gpus", ""), "muster.dev/offers-less": more.pop("short", "")}
    conditions = [{"type": "Ready", "status": ready}, *more.pop("conditions", [])]
    meta = {"name": name, "labels": labels or {}, "annotations": gpus}
    return msgspec.convert({"metadata": meta, "spec": more, "status": {"conditions": conditions}}, Node)


def cluster_queue(
    name: str, quota: str = "4", flavor: str = "any", active: Any = ("True", "Ready", ""), **spec: Any
) -> ClusterQueue:
    flavors = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": quota}]}]
    group = {"coveredResources": ["cpu"], "flavors": flavors}
    status, reason, message = active
    condition = {"type": "Active", "status": status, "reason": reason, "message": message}
    body = {
        "metadata": {"name": name},
        "spec": {"resourceGroups": [group], **spec},
        "status": {"conditions": [condition]},
    }
    return msgspec.convert(body, ClusterQueue)


def local_queue(name: str, target: str, active: str = "True", **spec: Any) -> LocalQueue:
    meta = {"name": name, "namespace": "team"}
    status = {"conditions": [{"type": "Active", "status": active, "reason": "R", "message": "m"}]}
    body = {"metadata": meta, "spec": {"clusterQueue": target, **spec}, "status": status}
    return msgspec.convert(body, LocalQueue)


def flavor(name: str, **labels: str) -> ResourceFlavor:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"nodeLabels": labels}}, ResourceFlavor)


def job(name: str, queue: str = "", state: str = "Queued", reason: str = "") -> dict[str, Any]:
    return {"namespace": "team", "name": name, "queue": queue, "state": state, "reason": reason}


WELL = node("n1", labels={"cloud": "a"})
ILL = '[{"name":"0","ill":true},{"name":"1"}]'
NEVER = NeverVerdict("no node ever has 500 cpu", certain=True).sentence
AS_THINGS_ARE = NeverVerdict("no node has 500 cpu").sentence

CASES: dict[str, tuple[Scene, list[tuple[str, bool, str, str]]]] = {
    "a cluster that is well": (
        Scene(
            nodes=[WELL],
            flavors=[flavor("any")],
            cluster_queues=[cluster_queue("all")],
            local_queues=[local_queue("q", "all")],
            jobs=[job("a", "q"), job("b"), job("c", "gone", "Completed"), job("d", "gone", "Running")],
            clusters=[WorkerClusterState("far", "Connected"), WorkerClusterState("new", "Unknown", "no manager")],
        ),
        [],
    ),
    "nothing that the user may see": (Scene(), []),
    "a server that is not ready": (
        Scene(unready=["storage failed: no space left for /srv/store.db"]),
        [("server", True, "not ready: storage failed: no space left for /srv/store.db", "Its log says more")],
    ),
    "no engine": (
        Scene(silence="no engine answers"),
        [("engine", True, "No engine answers", "muster controllers")],
    ),
    "a node that is lost": (
        Scene(nodes=[WELL, node("n2", "Unknown")]),
        [("nodes", True, "1 of 2 nodes is not ready: n2", "kubectl describe node n2")],
    ),
    "two nodes that are lost": (
        Scene(nodes=[WELL, node("n2", "Unknown"), node("n3", "False")]),
        [("nodes", True, "2 of 3 nodes are not ready: n2, n3", "kubectl describe node NODE")],
    ),
    "a node with a full disk": (
        Scene(nodes=[WELL, node("n2", conditions=[{"type": "DiskPressure", "status": "True"}])]),
        [("nodes", True, "The disk of 1 of 2 nodes is full", "Free some of the disk")],
    ),
    "a node that says which disk is full": (
        Scene(
            nodes=[
                node(
                    "n2",
                    conditions=[
                        {
                            "type": "DiskPressure",
                            "status": "True",
                            "message": "kubelet has disk pressure: the disk of /srv is full",
                        }
                    ],
                )
            ]
        ),
        [("nodes", True, "no new pods start there: n2: the disk of /srv is full", "Free some of the disk")],
    ),
    "a node that offers less than was asked for": (
        Scene(nodes=[node("n2", short="0 of 2 nvidia.com/gpu: the machine has no more")]),
        [("shortage", False, "n2 offers 0 of 2 nvidia.com/gpu: the machine has no more", "muster restart --nodes")],
    ),
    "a node that is cordoned": (
        Scene(nodes=[WELL, node("n2", unschedulable=True)]),
        [("nodes", False, "1 of 2 nodes cordoned", "kubectl uncordon n2")],
    ),
    "no node that takes pods": (
        Scene(nodes=[node("n2", unschedulable=True)]),
        [("nodes", True, "No node takes new pods", "Uncordon one")],
    ),
    "jobs that wait for a first node": (
        Scene(nodes=[], jobs=[job("a", state="Pending"), job("b", state="Completed")]),
        [("nodes", False, "There is no node, and 1 job waits", "muster nodes --nodes process")],
    ),
    "a cluster without nodes in front of others": (
        Scene(nodes=[], jobs=[job("a")], clusters=[WorkerClusterState("far", "Connected")]),
        [],
    ),
    "a cluster that is empty": (Scene(nodes=[]), []),
    "an ill GPU": (
        Scene(
            nodes=[
                WELL,
                node("g", gpus=ILL, conditions=[{"type": "GPUProblem", "status": "True", "message": "0: Xid 79"}]),
            ]
        ),
        [("gpus", True, "1 GPU is ill on g; no new pod gets them: 0: Xid 79", "Reset or replace")],
    ),
    "a queue that names nothing": (
        Scene(cluster_queues=[], local_queues=[local_queue("q", "gone")]),
        [
            (
                "localqueue",
                True,
                "LocalQueue q of namespace team names ClusterQueue gone, which does not exist",
                "Create it: muster queue create gone --no-local, or delete the LocalQueue: kubectl delete localqueue q",
            )
        ],
    ),
    "a queue that has no ClusterQueue at all": (
        Scene(local_queues=[local_queue("q", "")]),
        [("localqueue", True, "LocalQueue q of namespace team names no ClusterQueue", "Delete the LocalQueue")],
    ),
    "a queue whose ClusterQueue cannot be seen": (Scene(local_queues=[local_queue("q", "hidden")]), []),
    "stopped queues": (
        Scene(
            cluster_queues=[cluster_queue("all", stopPolicy="Hold", active=("False", "Stopped", "is stopped"))],
            local_queues=[local_queue("q", "all", stopPolicy="HoldAndDrain")],
        ),
        [
            ("clusterqueue", False, "ClusterQueue all is stopped", "muster queue resume all --cluster"),
            ("localqueue", False, "LocalQueue q of namespace team is stopped", "muster queue resume q -n team"),
        ],
    ),
    "a ClusterQueue without its flavor": (
        Scene(cluster_queues=[cluster_queue("all", active=("False", "FlavorNotFound", "Can't admit: missing x."))]),
        [("clusterqueue", True, "ClusterQueue all: Can't admit: missing x", "Create the ResourceFlavor")],
    ),
    "a ClusterQueue that is inactive for another reason": (
        Scene(cluster_queues=[cluster_queue("all", active=("False", "Terminating", "it goes"))]),
        [("clusterqueue", True, "ClusterQueue all: it goes", "kubectl describe clusterqueue all")],
    ),
    "a flavor without nodes": (
        Scene(
            nodes=[WELL],
            flavors=[flavor("spot", cloud="spot", zone="b"), flavor("unused", cloud="no"), flavor("here", cloud="a")],
            cluster_queues=[cluster_queue("all", flavor="spot"), cluster_queue("none", quota="0", flavor="unused")],
        ),
        [("flavor", True, "for nodes with cloud=spot,zone=b, and no node has", "label node NODE cloud=spot zone=b")],
    ),
    "flavors of a cluster whose jobs run elsewhere": (
        Scene(nodes=[], flavors=[flavor("spot", cloud="s")], cluster_queues=[cluster_queue("all", flavor="spot")]),
        [],
    ),
    "a job in a queue that is not there": (
        Scene(local_queues=[], jobs=[job("a", "typo")]),
        [("job", True, "Job team/a is for queue typo, and namespace team has no such queue", "queue create typo")],
    ),
    "a job that misses the queue that is there": (
        Scene(local_queues=[local_queue("q", "all")], jobs=[job("a", "typo", "Suspended")]),
        [("job", True, "Job team/a is for queue typo", "(there is q): muster alter a --queue q -n team")],
    ),
    "a job that misses the queue that is there, beside one that leads nowhere": (
        Scene(local_queues=[local_queue("a", "gone", "False"), local_queue("q", "all")], jobs=[job("a", "typo")]),
        [("job", True, "Job team/a is for queue typo", "(there is q): muster alter a --queue q -n team")],
    ),
    "jobs that can never start": (
        Scene(jobs=[job("a", reason=NEVER), job("b", reason=AS_THINGS_ARE), job("c", reason="no quota")]),
        [
            ("job", True, "Job team/a can never start: no node ever has 500 cpu", "muster why a -n team"),
            ("job", True, "Job team/b cannot start as things are", "muster why b -n team"),
        ],
    ),
    "a worker cluster that is lost": (
        Scene(clusters=[WorkerClusterState("far", "Lost", "refused")]),
        [("cluster", True, "Worker cluster far is lost: refused", "muster cluster join far")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_trouble_is_told_with_what_to_do(name: str) -> None:
    scene, wanted = CASES[name]
    troubles = find_troubles(scene)
    assert [(one.topic, one.grave) for one in troubles] == [(topic, grave) for topic, grave, _, _ in wanted]
    for trouble, (_, _, sentence, advice) in zip(troubles, wanted, strict=True):
        assert sentence in trouble.sentence
        assert advice in trouble.advice
        assert not trouble.sentence.endswith(".")


def test_the_grave_come_first() -> None:
    scene = Scene(nodes=[WELL, node("n2", unschedulable=True)], jobs=[job("a", reason=NEVER)])
    assert [one.grave for one in find_troubles(scene)] == [True, False]


def test_of_many_alike_a_few_are_named() -> None:
    troubles = find_troubles(Scene(jobs=[job(f"j{number}", reason=NEVER) for number in range(1_000)]))
    assert [one.name for one in troubles] == ["j0", "j1", "j2", "j3", "j4", ""]
    assert troubles[-1] == Trouble("job", "995 more jobs like these", "They are shown once these are mended")


def test_many_nodes_are_one_trouble() -> None:
    [trouble] = find_troubles(Scene(nodes=[WELL, *(node(f"l{number}", "False") for number in range(100))]))
    assert trouble.sentence == "100 of 101 nodes are not ready: l0, l1, l2, l3, l4 and 95 more"
