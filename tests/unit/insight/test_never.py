"""Whether a job can never start."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.batch import Job
from muster.api.core import Node, Pod
from muster.api.core.quota import LimitRange
from muster.api.kueue import ClusterQueue, Cohort, LocalQueue, Workload
from muster.api.runtimeclass import RuntimeClass
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, place
from muster.gang.shapes import shape_of
from muster.insight.jobstate import JobState
from muster.insight.never import Room, ask_of, doubted, verdict
from muster.insight.quotastate import QuotaState
from muster.insight.record import JobRecord, record_of
from muster.queueing.additions import Completion


def node(name: str, ready: bool = True, cordoned: bool = False, taint: str = "", labels: Any = (), **has: Any) -> Node:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    allocatable = {resource: str(quantity) for resource, quantity in has.items()}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": {"taints": taints, "unschedulable": cordoned},
            "status": {"conditions": conditions, "allocatable": {"pods": "10"} | allocatable},
        },
        Node,
    )


def job(pods: int = 1, selector: Any = None, annotations: Any = None, spec: Any = None, **asked: str) -> JobRecord:
    container = {"name": "c", "resources": {"requests": asked}}
    template = {"spec": {"containers": [container], "nodeSelector": selector or {}, **(spec or {})}}
    found = msgspec.convert(
        {
            "metadata": {"name": "j", "namespace": "ns", "annotations": annotations or {}},
            "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template},
        },
        Job,
    )
    return record_of(found)


def cluster_queue(name: str, flavors: Any, cohort: str = "", borrow: Any = None) -> ClusterQueue:
    """`flavors` by name: resources and their quotas, the same resources in each."""
    groups = [
        {
            "coveredResources": list(next(iter(flavors.values()))),
            "flavors": [
                {
                    "name": flavor,
                    "resources": [
                        {"name": resource, "nominalQuota": quota}
                        | ({"borrowingLimit": borrow[resource]} if resource in (borrow or {}) else {})
                        for resource, quota in quotas.items()
                    ],
                }
                for flavor, quotas in flavors.items()
            ],
        }
    ]
    spec = {"resourceGroups": groups, "cohortName": cohort}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterQueue)


def room(*nodes: Node, fixed: bool = True, queues: Any = (), cohorts: Any = (), **added: Any) -> Room:
    """With a LocalQueue of the name of each ClusterQueue."""
    local = [
        {"metadata": {"name": one.metadata.name, "namespace": "ns"}, "spec": {"clusterQueue": one.metadata.name}}
        for one in queues
    ]
    return Room(
        nodes,
        fixed=fixed,
        cluster_queues=queues,
        cohorts=msgspec.convert([{"metadata": {"name": name}} for name in cohorts], list[Cohort]),
        local_queues=msgspec.convert(local, list[LocalQueue]),
        **added,
    )


GPU: dict[str, Any] = {"nvidia.com/gpu": "1"}
SMALL, LARGE = node("s", cpu=4, memory="8Gi"), node("l", cpu=8, memory="24684084Ki")

CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
PORT = {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
DRAWN = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


@pytest.mark.parametrize(
    ("asked", "nodes", "text"),
    [
        (job(cpu="8"), [SMALL, LARGE], ""),
        (job(cpu="64"), [SMALL, LARGE], "no node ever has 64 cpu; the largest has 8"),
        (job(memory="32Gi"), [SMALL, LARGE], "no node ever has 32Gi memory; the largest has 23.5Gi"),
        (job(memory="500Ti"), [LARGE], "no node ever has 500Ti memory; the largest has 23.5Gi"),
        (job(memory="64Mi"), [node("tiny", memory="32Mi")], "no node ever has 64Mi memory; the largest has 32Mi"),
        (job(**GPU), [LARGE], "no node ever has 1 nvidia.com/gpu; none has any"),
        (
            job(cpu="6", memory="10Gi"),
            [node("a", cpu=8, memory="8Gi"), node("b", cpu=4, memory="16Gi")],
            "no node ever has 6 cpu and 10Gi memory at once",
        ),
        (job(3, cpu="4"), [SMALL, LARGE], ""),
        (
            job(4, cpu="4"),
            [SMALL, LARGE],
            "its 4 pods with 4 cpu each never fit at once; empty, the nodes have room for 3",
        ),
        (job(11), [SMALL], "its 11 pods never fit at once; empty, the node has room for 10"),
        pytest.param(
            job(4, annotations={"muster.dev/elastic": "3:4"}, cpu="4"), [SMALL, LARGE], "", id="its least size"
        ),
        pytest.param(job(9, annotations={"muster.dev/gang": "false"}, cpu="4"), [SMALL, LARGE], "", id="one by one"),
        pytest.param(job(cpu="4"), [node("a", ready=False, cpu=4)], "", id="not ready now"),
        pytest.param(job(cpu="4"), [node("a", cordoned=True, cpu=4)], "", id="cordoned now"),
        pytest.param(job(cpu="4"), [node("a", taint="node.kubernetes.io/unreachable", cpu=4)], "", id="away now"),
        (
            job(cpu="4"),
            [node("a", taint="team", cpu=4), SMALL],
            "",
        ),
        (
            job(cpu="5"),
            [node("a", taint="team", cpu=8), SMALL],
            "no node ever has 5 cpu; the largest has 4",
        ),
        (
            job(selector={"gpu": "a100"}),
            [SMALL],
            "no node is ever open to its pods: 1 node(s) didn't match Pod's node affinity/selector",
        ),
        pytest.param(job(cpu="4"), [], "", id="nodes that may not be seen"),
        pytest.param(job(cpu="4", spec=CLAIM), [SMALL], "", id="a claim that may yet be bound"),
        pytest.param(job(4, cpu="1", spec=DRAWN), [SMALL], "", id="pods that may yet be there"),
        (
            job(3, spec=PORT),
            [SMALL, LARGE],
            "its 3 pods never fit at once; empty, the nodes have room for 2",
        ),
        (
            job(spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
            [SMALL],
            "cannot allocate resource claims: they are not known to this scheduler",
        ),
    ],
)
def test_what_no_node_has(asked, nodes, text):
    found = verdict(ask_of(asked), room(*nodes))
    assert (found.text, found.certain) == (text, bool(text))


def test_where_nodes_may_be_added_it_is_not_for_ever():
    found = verdict(ask_of(job(cpu="64")), room(SMALL, LARGE, fixed=False))
    assert found.sentence == "cannot start as things are: no node has 64 cpu; the largest has 8"
    # Whether other schedulers place all of its pods at once is not known.
    assert not verdict(ask_of(job(40, cpu="4")), room(SMALL, fixed=False)).text


ONE = cluster_queue("q", {"f": {"cpu": "4"}})
TWO = cluster_queue("q", {"spot": {"cpu": "4", "memory": "1Gi"}, "fixed": {"cpu": "2", "memory": "8Gi"}})
LENDER = cluster_queue("other", {"f": {"cpu": "10"}}, "lab")


@pytest.mark.parametrize(
    ("asked", "queues", "text"),
    [
        (job(4, cpu="1"), [ONE], ""),
        (job(5, cpu="1"), [ONE], "the quota of queue q is 4 cpu at most, and it asks for 5"),
        (job(cpu="1", memory="1Gi"), [ONE], "the quota of queue q has no memory at all"),
        (job(cpu="0", memory="0"), [ONE], ""),
        (job(cpu="1"), [cluster_queue("q", {"f": {"cpu": "0"}})], "the quota of queue q has no cpu at all"),
        (job(cpu="4"), [TWO], ""),
        (job(cpu="5"), [TWO], "the quota of queue q is 4 cpu at most, and it asks for 5"),
        (job(cpu="4", memory="8Gi"), [TWO], "no flavor in the quota of queue q has 4 cpu and 8Gi memory at once"),
        pytest.param(job(cpu="14"), [cluster_queue("q", {"f": {"cpu": "4"}}, "lab"), LENDER], "", id="borrowed"),
        pytest.param(
            job(cpu="7"),
            [cluster_queue("q", {"f": {"cpu": "4"}}, "lab", {"cpu": "2"}), LENDER],
            "the quota of queue q is 6 cpu at most, and it asks for 7",
            id="borrowed to a limit",
        ),
        pytest.param(job(5, annotations={"muster.dev/elastic": "4:8"}, cpu="1"), [ONE], "", id="its least size"),
        pytest.param(
            job(8, annotations={"kueue.x-k8s.io/job-min-parallelism": "4"}, cpu="1"), [ONE], "", id="admitted in part"
        ),
        pytest.param(job(cpu="99"), [LENDER], "", id="a queue that may not be seen"),
        pytest.param(job(cpu="x"), [ONE], "", id="a quantity that is none"),
    ],
)
def test_what_no_quota_covers(asked, queues, text):
    found = verdict(ask_of(asked), room(queues=queues, cohorts=["lab"]), "ns", "q")
    assert (found.text, found.certain) == (text, bool(text))


def test_what_a_cluster_adds_to_pods_counts():
    vm = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "1"}}}
    ranges = [
        {"metadata": {"namespace": name}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": most}}]}}
        for name, most in {"ns": "8", "others": "99"}.items()
    ]
    added: Any = {
        "completion": Completion.of(
            msgspec.convert(ranges, list[LimitRange]), msgspec.convert([vm], list[RuntimeClass])
        )
    }
    asked = job(cpu="4")
    podset = {"count": 1, "template": {"spec": {"containers": [{"name": "c"}], "runtimeClassName": "vm"}}}
    virtual = msgspec.convert({"metadata": {"namespace": "ns"}, "spec": {"podSets": [podset]}}, Workload)
    there = room(LARGE, queues=[cluster_queue("q", {"f": {"cpu": "4"}})], **added)
    assert not verdict(ask_of(asked), there, "ns", "q").text
    found = verdict(ask_of(virtual), there, "ns", "q")
    assert found.text == "no node ever has 9 cpu; the largest has 8"
    assert not verdict(ask_of(virtual), room(node("huge", cpu=9), **added), "ns").text


def test_what_nodes_and_quota_lack_is_said_once():
    found = verdict(ask_of(job(cpu="64", memory="1Gi")), room(SMALL, LARGE, queues=[ONE]), "ns", "q")
    assert found.text == "the quota of queue q has no memory at all; no node ever has 64 cpu; the largest has 8"


def test_of_other_kinds_of_jobs_the_pods_are_looked_at_one_by_one():
    podset = {"name": "main", "count": 40, "template": {"spec": {"containers": [{"name": "c"}]}}}
    workload = msgspec.convert({"metadata": {"name": "w"}, "spec": {"podSets": [podset]}}, Workload)
    assert not verdict(ask_of(workload), room(SMALL)).text


NO_WAY = (
    "insufficient quota for cpu in flavor f, previously considered podsets requests (0) + ... > maximum capacity (4)"
)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (JobState("Running", 1, 1), ""),
        (JobState("Pending", 0, 1, "waiting for its pods to be created"), "waiting for its pods to be created"),
        (JobState("Pending", 0, 1, "0/1 nodes", blocked=True), ""),
        # Quota that is there, but not free, is nothing to despair of; and admission may count otherwise than we do.
        (JobState("Queued", 0, 1, "not now", True, QuotaState("Queued", "not now", queue="q")), "not now"),
        (
            JobState("Queued", 0, 1, NO_WAY, True, QuotaState("Queued", NO_WAY, queue="q")),
            "can never start: the quota of queue q is 4 cpu at most, and it asks for 5",
        ),
        (JobState("Held", 0, 1, "held", True, QuotaState("Held", "held")), "held"),
    ],
)
def test_only_where_those_who_decide_see_no_way_it_is_said(state, reason):
    found = doubted(job(5, cpu="1"), state, room(node("a", cpu=5), queues=[ONE]))
    assert found.reason == (reason or state.reason)
    assert found.quota_state is None or found.quota_state.reason == found.reason


NODES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4)


@given(NODES, st.integers(1, 6), st.integers(0, 9), st.integers(0, 9))
def test_it_is_said_if_and_only_if_the_gang_does_not_fit_on_empty_nodes(sizes, pods, cpu, memory):
    nodes = [node(f"n{index}", cpu=cpu, memory=memory) for index, (cpu, memory) in enumerate(sizes)]
    asked = job(pods, cpu=str(cpu), memory=str(memory))
    capacity = Capacity()
    for one in nodes:
        capacity.set_node(one)
    shape = shape_of(Pod(spec=asked.source.spec.template.spec))
    fits = isinstance(place(capacity, {shape: pods}), Placement)
    assert bool(verdict(ask_of(asked), room(*nodes)).text) != fits
