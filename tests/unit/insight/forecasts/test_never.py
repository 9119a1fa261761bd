"""Whether a job can never start."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.batch import Job
from muster.api.core import Node, Pod
from muster.api.core.quota import LimitRange
from muster.api.groups.runtimeclass import RuntimeClass
from muster.api.jobset import JobSet
from muster.api.kueue import ClusterQueue, ClusterQueueStatus, Cohort, LocalQueue, ResourceFlavor, Workload
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, place
from muster.gang.shapes import shape_of
from muster.insight.forecasts.never import VisibleCapacity, find_ask, judge_ask, with_verdict
from muster.insight.jobs.state import OPEN, JobState, NeverVerdict
from muster.insight.quota.state import QuotaState
from muster.insight.record import JobRecord, record_of
from muster.queueing.additions import Completion
from muster.queueing.quota.nodes import follow_nodes


def node(
    name: str,
    ready: bool = True,
    cordoned: bool = False,
    taint: str = "",
    labels: Any = (),
    ill: int = 0,
    full: bool = False,
    **has: Any,
) -> Node:
    """has: what it gives to pods. ill: how many of its GPUs it does not give."""
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    conditions = [
        {"type": "Ready", "status": "True" if ready else "False"},
        {"type": "DiskPressure", "status": str(full)},
    ]
    allocatable = {resource: str(quantity) for resource, quantity in has.items()}
    gpus = {resource: str(int(quantity) + ill) for resource, quantity in allocatable.items() if "gpu" in resource}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": {"taints": taints, "unschedulable": cordoned},
            "status": {"conditions": conditions, "allocatable": {"pods": "10"} | allocatable, "capacity": gpus},
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


def cluster_queue(name: str, flavors: Any, cohort: str = "", borrow: Any = None, follows: bool = False) -> ClusterQueue:
    """`flavors` by name: resources and their quotas, the same resources in each. follows: what the nodes have."""
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
    annotations = {"muster.dev/quota-from-nodes": "true"} if follows else {}
    return msgspec.convert({"metadata": {"name": name, "annotations": annotations}, "spec": spec}, ClusterQueue)


def room(*nodes: Node, fixed: bool = True, queues: Any = (), cohorts: Any = (), **added: Any) -> VisibleCapacity:
    """With a LocalQueue of the name of each ClusterQueue."""
    local = [
        {"metadata": {"name": one.metadata.name, "namespace": "ns"}, "spec": {"clusterQueue": one.metadata.name}}
        for one in queues
    ]
    return VisibleCapacity(
        nodes,
        fixed=fixed,
        cluster_queues=queues,
        cohorts=msgspec.convert([{"metadata": {"name": name}} for name in cohorts], list[Cohort]),
        local_queues=msgspec.convert(local, list[LocalQueue]),
        **added,
    )


def test_nodes_here_say_nothing_of_a_job_that_another_cluster_runs():
    subject = job(cpu="64").source
    spec = msgspec.structs.replace(subject.spec, managed_by="kueue.x-k8s.io/multikueue")
    there = record_of(msgspec.structs.replace(subject, spec=spec))
    assert judge_ask(find_ask(job(cpu="64")), room(SMALL)).text
    assert not judge_ask(find_ask(there), room(SMALL)).text
    queue = cluster_queue("q", {"f": {"cpu": "8"}})
    assert judge_ask(find_ask(there), room(SMALL, queues=[queue]), "ns", "q").text, "its quota does"


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
            "cannot allocate resource claim gpu: this scheduler allocates only claims that are made from templates",
        ),
        pytest.param(
            job(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}),
            [SMALL],
            "",
            id="devices that may yet be there",
        ),
    ],
)
def test_what_no_node_has(asked, nodes, text):
    found = judge_ask(find_ask(asked), room(*nodes))
    assert (found.text, found.certain) == (text, bool(text))


def one_pod(cpu: str) -> dict[str, Any]:
    """The spec of a Job with one pod."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    return {"parallelism": 1, "completions": 1, "template": template}


def jobset(*replicas: int, of: Any = None, status: Any = None, succeeded: int = 0, cpus: str = "11") -> JobRecord:
    """Roles a, b, ... of Jobs with one pod; of: its group; cpus: a digit for the pods of each role."""
    job_spec = one_pod("1")
    roles = [
        {"name": name, "replicas": count, "template": {"spec": one_pod(cpu)}}
        for name, count, cpu in zip("ab", replicas, cpus, strict=False)
    ]
    spec = {"replicatedJobs": roles, "groupSchedulingConfig": of}
    metadata = {"name": "j", "namespace": "ns", "uid": "u"}
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "j", "uid": "u", "controller": True}
    child = {"metadata": {"ownerReferences": [owner]}, "spec": job_spec, "status": {"succeeded": succeeded}}
    found = {"metadata": metadata, "spec": spec, "status": {"groupScheduling": status}}
    return record_of(msgspec.convert(found, JobSet), [msgspec.convert(child, Job)])


TOO_MANY = "its 5 pods with 1 cpu each never fit at once; empty, the node has room for 4"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(jobset(5, of={}), TOO_MANY, id="a group, before anything is known of it"),
        pytest.param(jobset(2, 3, of={}), TOO_MANY, id="of two roles"),
        pytest.param(jobset(5, of={}, status={"epoch": 2, "releasedEpoch": 1}), TOO_MANY, id="that was restarted"),
        pytest.param(jobset(5, of={}, status={"epoch": 2, "releasedEpoch": 2}), "", id="that was let go"),
        pytest.param(jobset(5, of={}, succeeded=1), "", id="of which some need not run again"),
        pytest.param(jobset(4, 1, of={"targetReplicatedJobs": ["a"]}), "", id="without the others"),
        pytest.param(jobset(5, 1, of={"targetReplicatedJobs": ["a"]}), TOO_MANY, id="of one role"),
        pytest.param(jobset(4, of={}), "", id="that fits"),
        pytest.param(jobset(5), "", id="no group: Job by Job"),
    ],
)
def test_a_group_that_starts_together_has_to_fit_at_once(asked: JobRecord, text: str) -> None:
    assert judge_ask(find_ask(asked), room(node("a", cpu=4))).text == text


def test_a_group_of_several_kinds_of_pods_can_never_start_where_no_packing_of_them_exists() -> None:
    nodes = [node(f"n{number}", cpu=16) for number in range(3)]
    assert judge_ask(find_ask(jobset(4, 4, of={}, cpus="56")), room(*nodes)).text == ""
    text = "its 9 pods never fit at once, although those of each kind do"
    assert judge_ask(find_ask(jobset(4, 5, of={}, cpus="56")), room(*nodes)).text == text


def test_how_far_a_group_is_that_can_never_start() -> None:
    waits = JobState("Pending", 0, 5, "0/1 nodes; 4 of 5 pods started", blocked=True, progress="4 of 5 pods started")
    found = with_verdict(jobset(5, of={}), waits, room(node("a", cpu=4)))
    assert found.reason == f"can never start: {TOO_MANY}; 4 of 5 pods started"


def test_where_nodes_may_be_added_it_is_not_for_ever():
    found = judge_ask(find_ask(job(cpu="64")), room(SMALL, LARGE, fixed=False))
    assert found.sentence == "cannot start as things are: no node has 64 cpu; the largest has 8"
    # Whether other schedulers place all of its pods at once is not known.
    assert not judge_ask(find_ask(job(40, cpu="4")), room(SMALL, fixed=False)).text


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
    found = judge_ask(find_ask(asked), room(queues=queues, cohorts=["lab"]), "ns", "q")
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
    assert not judge_ask(find_ask(asked), there, "ns", "q").text
    found = judge_ask(find_ask(virtual), there, "ns", "q")
    assert found.text == "no node ever has 9 cpu; the largest has 8"
    assert not judge_ask(find_ask(virtual), room(node("huge", cpu=9), **added), "ns").text


def gpus(count: int) -> dict[str, Any]:
    return {"nvidia.com/gpu": str(count)}


def gpu_node(name: str, well: int, **state: Any) -> Node:
    return node(name, **state, **gpus(well))


GPU_FLAVOR = msgspec.convert([{"metadata": {"name": "f"}}], list[ResourceFlavor])
FOLLOWER = cluster_queue("q", {"f": {"nvidia.com/gpu": "0"}}, follows=True)


def followed(*nodes: Node, flavors: Any = GPU_FLAVOR, fixed: bool = True) -> VisibleCapacity:
    """A cluster whose queue q has what its nodes give now."""
    queue = follow_nodes(FOLLOWER, {one.metadata.name: one for one in GPU_FLAVOR}, nodes)
    return room(*nodes, queues=[queue], flavors=flavors, fixed=fixed)


ONE_ILL, LAID_UP = gpu_node("a", 3, ill=1), "1 nvidia.com/gpu of a (ill)"


@pytest.mark.parametrize("queue", ["q", ""])
@pytest.mark.parametrize(
    ("asked", "nodes", "awaits"),
    [
        pytest.param(job(**gpus(3)), [ONE_ILL], "", id="as many as are well"),
        pytest.param(job(**gpus(4)), [ONE_ILL], LAID_UP, id="all"),
        pytest.param(job(4, **gpus(1)), [ONE_ILL], LAID_UP, id="all, for a gang"),
        pytest.param(job(**gpus(2)), [gpu_node("a", 0, ill=2)], "2 nvidia.com/gpu of a (ill)", id="none is well"),
        pytest.param(job(**gpus(4)), [gpu_node("a", 4, cordoned=True)], "a (cordoned)", id="cordoned"),
        pytest.param(job(**gpus(4)), [gpu_node("a", 4, ready=False)], "a (not ready)", id="not ready"),
        pytest.param(job(**gpus(4)), [gpu_node("a", 4, full=True)], "a (disk pressure)", id="full"),
        pytest.param(
            job(**gpus(4)),
            [gpu_node("a", 4, ready=False, cordoned=True, taint="node.kubernetes.io/unreachable")],
            "a (not ready, cordoned)",
            id="each state once",
        ),
        pytest.param(job(**gpus(4)), [gpu_node("b", 4, cordoned=True), ONE_ILL], f"b (cordoned), {LAID_UP}", id="any"),
        pytest.param(
            job(2, **gpus(4)), [gpu_node("b", 4, cordoned=True), ONE_ILL], f"b (cordoned), {LAID_UP}", id="all of them"
        ),
        pytest.param(job(**gpus(2)), [gpu_node("a", 3, ill=1, cordoned=True)], "a (cordoned)", id="what it needs"),
        pytest.param(
            job(2, **gpus(2)), [ONE_ILL, gpu_node("b", 1, cordoned=True)], LAID_UP, id="and nodes that it could go to"
        ),
    ],
)
def test_which_nodes_have_to_become_well(asked, nodes, awaits, queue):
    found = judge_ask(find_ask(asked), followed(*nodes), "ns", queue)
    assert found == NeverVerdict(awaits=awaits)
    assert found.sentence == (f"waits for {awaits}" if awaits else "")


@pytest.mark.parametrize("queue", ["q", ""])
def test_what_would_not_fit_if_all_were_well_never_starts(queue):
    found = judge_ask(find_ask(job(**gpus(5))), followed(ONE_ILL), "ns", queue)
    assert found.sentence == "can never start: no node ever has 5 nvidia.com/gpu; the largest has 4"


def test_of_many_nodes_some_are_named():
    nodes = [gpu_node(f"n{number}", 4, cordoned=True) for number in range(7)]
    named = ", ".join(f"n{number} (cordoned)" for number in range(5))
    assert judge_ask(find_ask(job(**gpus(4))), room(*nodes)).sentence == f"waits for {named} and 2 more"


@pytest.mark.parametrize("ill", [0, 2])
def test_all_of_many_nodes_are_compared_only_for_what_does_not_fit_a_part(ill):
    nodes = [gpu_node(f"n{number:03}", 1) for number in range(300)] + [
        gpu_node("n300", 4),
        gpu_node("n301", 4, ill=ill),
    ]
    there = room(*nodes)
    assert judge_ask(find_ask(job(2, **gpus(1))), there) == OPEN
    assert "capacity" not in vars(there.best), "a part of the nodes sufficed"
    assert judge_ask(find_ask(job(2, **gpus(4))), there) == OPEN
    assert judge_ask(find_ask(job(3, **gpus(4))), there).certain


def test_where_nodes_may_be_added_others_may_do():
    asked = find_ask(job(4, **gpus(1)))
    assert judge_ask(asked, followed(ONE_ILL, fixed=False), "ns", "q").sentence == f"waits for {LAID_UP}, or more nodes"
    more = find_ask(job(5, **gpus(1)))
    found = judge_ask(more, followed(ONE_ILL, fixed=False), "ns", "q")
    text = "the quota of queue q is 4 nvidia.com/gpu at most, and it asks for 5"
    assert (found.text, found.certain) == (text, False)
    assert judge_ask(more, followed(ONE_ILL), "ns", "q").certain


def test_a_queue_that_borrows_from_one_that_follows_the_nodes_may_get_what_they_have_at_their_best():
    lender = msgspec.structs.replace(FOLLOWER, spec=msgspec.structs.replace(FOLLOWER.spec, cohort_name="lab"))
    lender = follow_nodes(lender, {"f": GPU_FLAVOR[0]}, [ONE_ILL])
    borrower = cluster_queue("b", {"f": {"nvidia.com/gpu": "0", "pods": "0"}}, "lab")
    there = room(ONE_ILL, queues=[lender, borrower], cohorts=["lab"], flavors=GPU_FLAVOR)
    assert judge_ask(find_ask(job(**gpus(4))), there, "ns", "b") == NeverVerdict(awaits=LAID_UP)
    assert judge_ask(find_ask(job(**gpus(5))), there, "ns", "b").certain


def test_of_a_quota_that_is_about_to_follow_its_nodes_nothing_is_said():
    nodes = [gpu_node("a", 4), node("b", cordoned=True)]
    there = room(*nodes, queues=[FOLLOWER], flavors=GPU_FLAVOR, fixed=False)
    assert judge_ask(find_ask(job(**gpus(4))), there, "ns", "q") == OPEN


def test_of_quota_that_follows_what_may_not_be_seen_nothing_is_said():
    assert judge_ask(find_ask(job(**gpus(4))), followed(), "ns", "q") == OPEN
    assert judge_ask(find_ask(job(2, **gpus(3))), followed(gpu_node("a", 3), flavors=None), "ns", "q").text == (
        "its 2 pods with 3 nvidia.com/gpu each never fit at once; empty, the node has room for 1"
    )


def test_who_waits_for_nodes_says_so_instead_of_what_is_short():
    state = JobState("Queued", 0, 1, NO_WAY, True, QuotaState("Queued", NO_WAY, queue="q"))
    assert with_verdict(job(**gpus(4)), state, followed(ONE_ILL)).reason == f"waits for {LAID_UP}"


def test_a_job_too_large_for_every_node_is_judged_before_its_queue_has_looked_at_it():
    state = JobState("Queued", 0, 1, quota_state=QuotaState("Queued", "", queue="q"))
    found = with_verdict(job(cpu="64"), state, room(SMALL, LARGE, queues=[ONE]))
    assert found.reason == "can never start: no node ever has 64 cpu; the largest has 8"


def test_what_nodes_and_quota_lack_is_said_once():
    found = judge_ask(find_ask(job(cpu="64", memory="1Gi")), room(SMALL, LARGE, queues=[ONE]), "ns", "q")
    assert found.text == "the quota of queue q has no memory at all; no node ever has 64 cpu; the largest has 8"


def test_of_other_kinds_of_jobs_the_pods_are_looked_at_one_by_one():
    podset = {"name": "main", "count": 40, "template": {"spec": {"containers": [{"name": "c"}]}}}
    workload = msgspec.convert({"metadata": {"name": "w"}, "spec": {"podSets": [podset]}}, Workload)
    assert not judge_ask(find_ask(workload), room(SMALL)).text


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
    found = with_verdict(job(5, cpu="1"), state, room(node("a", cpu=5), queues=[ONE]))
    assert found.reason == (reason or state.reason)
    assert found.quota_state is None or found.quota_state.reason == found.reason


def test_a_job_whose_queue_admits_nothing_says_why():
    reason = "ClusterQueue q is inactive"
    active = {"type": "Active", "status": "False", "message": "Can't admit new workloads: its flavor is missing."}
    closed = msgspec.structs.replace(ONE, status=msgspec.convert({"conditions": [active]}, ClusterQueueStatus))
    state = JobState("Queued", 0, 1, reason, True, QuotaState("Queued", reason, queue="q"))
    assert not state.hopeless
    found = with_verdict(job(cpu="1"), state, room(SMALL, queues=[closed]))
    assert found.reason == "ClusterQueue q is inactive: its flavor is missing"


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
    assert bool(judge_ask(find_ask(asked), room(*nodes)).text) != fits
