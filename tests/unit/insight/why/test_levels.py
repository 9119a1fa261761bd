"""Why a job is not running, level by level."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.insight.jobs.test_state import READY, UNSCHEDULABLE, cancelled, job
from tests.unit.insight.quota.test_state import HOLDS, MINUTE, NO_ROOM, condition, pending, workload

from muster.api.batch import Job
from muster.api.conditions import is_true
from muster.api.core import Pod, PodSpec, PodTemplateSpec
from muster.api.jobset import JobSet
from muster.api.kueue import PodSet
from muster.api.kueue.names import TOPOLOGY_GATE
from muster.api.kueue.visibility import PendingWorkload
from muster.api.managed.dispatch import describe_barred
from muster.insight.clusters import WorkerClusterState
from muster.insight.forecasts.forecast import Holder, Need
from muster.insight.jobs.state import NeverVerdict, find_job_state
from muster.insight.quota.state import find_quota_state
from muster.insight.record import record_of
from muster.insight.why import DetailTable, JobLevel, JobReadings, describe_levels, join_levels
from muster.insight.why.answer import make_document, render_lines
from muster.insight.why.placement import NODES_NAMED
from muster.insight.why.sentences import describe_estimate, describe_failures
from muster.queueing.scheduling.estimate import Certainty, StartEstimate

OWNER = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "j", "uid": "u", "controller": True}
WHEN_PLACED = "Muster takes it off once the pod's place is known, or at once where none is given"
NOW = datetime(2026, 1, 1, 0, 6, tzinfo=UTC)


def pod(rank: int, node: str = "n", phase: str = "Running", ready: bool = True, **about: Any) -> Pod:
    conditions = [READY | {"lastTransitionTime": MINUTE}] if ready else []
    return msgspec.convert(
        {
            "metadata": {
                "name": f"j-{rank}",
                "annotations": {"batch.kubernetes.io/job-completion-index": str(rank)},
            },
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": conditions, "startTime": MINUTE} | about,
        },
        Pod,
    )


def facts(subject=None, pods=(), work=None, position=None, **about: Any) -> JobReadings:
    subject = subject or job()
    stands = find_quota_state(work, position) if work is not None else None
    state = find_job_state(subject, pods, stands)
    return JobReadings("ns", "j", NOW, state, subject, work, stands, pods, **about)


def look(found: JobReadings) -> dict[str, JobLevel]:
    return {level.name: level for level in describe_levels(found)}


ADMITTED = workload(condition("QuotaReserved"), condition("Admitted"), **HOLDS)


def states(found: JobReadings) -> str:
    return " ".join(level.state for level in describe_levels(found))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(facts(), "none none here later later none", id="no queue, no pods"),
        pytest.param(facts(job(suspend=True)), "none none here later later none", id="suspended by a person"),
        pytest.param(facts(job(suspend=True), work=workload()), "here none later later later none", id="waits"),
        pytest.param(facts(work=ADMITTED), "done none here later later none", id="admitted, no pods"),
        pytest.param(
            facts(pods=[pod(0, "", "Pending", ready=False)], work=ADMITTED),
            "done none here later later none",
            id="no node",
        ),
        pytest.param(
            facts(pods=[pod(0, ready=False), pod(1)], work=ADMITTED), "done none done here later none", id="not ready"
        ),
        pytest.param(facts(pods=[pod(0), pod(1)], work=ADMITTED), "done none done done done none", id="runs"),
        pytest.param(facts(job([("Complete", "")]), work=ADMITTED), "done none done done done none", id="over"),
    ],
)
def test_the_first_level_that_holds_it(found, expected):
    assert states(found) == expected


def test_the_jobs_that_a_waiting_job_shares_no_node_with_are_named():
    found = facts(pods=[pod(0, "", "Pending", ready=False)], apart=[f"j{number}" for number in range(7)])
    assert look(found)["placement"].details[1] == "it shares no node with: j0, j1, j2, j3, j4 and 2 more"


def test_who_waits_for_quota_is_told_everything_about_it():
    ahead = msgspec.convert(
        [{"metadata": {"name": f"w{n}", "namespace": "ns"}, "priority": n} for n in range(7)], list[PendingWorkload]
    )
    found = look(
        facts(
            job(suspend=True),
            work=workload(
                pending(NO_ROOM),
                condition("Evicted", reason="Preempted", message="for a workload (UID: u, JobUID: v) x"),
                owners=["1"],
            ),
            names={"u": "tune"},
            position=8,
            cluster_queue="c",
            ahead=ahead,
            waiting=9,
            needs=[Need("f", "cpu", 6000, 4000, 3000, 1000, 4000), Need("f", "memory", 2**31, 2**33, 0, 2**33, 2**33)],
            holders=[Holder("a", "c", NOW - timedelta(seconds=30), {"cpu": 3000})],
        )
    )
    assert found["quota"].text == "waiting in queue q (ClusterQueue c), position 8 of 9, for 5m"
    assert found["quota"].lines == [
        NO_ROOM,
        "RESOURCE   FLAVOR   ASKED   QUOTA   USED   AVAILABLE   MISSING",
        "cpu        f        6       4       3      1           5",
        "memory     f        2Gi     8Gi     0      8Gi         0",
        "more than there is: cpu of flavor f is 4 in all",
        "ahead of it: w0 (priority 0), w1 (priority 1), w2 (priority 2), w3 (priority 3), w4 (priority 4) and 2 more",
        "the missing quota is used by: a (cpu 3, for 30s)",
        "it lost its quota (Preempted): for tune x",
    ]


def test_a_workload_without_a_queue_is_told_how_it_gets_one():
    work = workload(pending("LocalQueue  doesn't exist"))
    work = msgspec.structs.replace(work, spec=msgspec.structs.replace(work.spec, queue_name=""))
    assert look(facts(job(suspend=True), work=work))["quota"] == JobLevel(
        "quota",
        "here",
        "it names no queue, and waits, for 6m",
        ("name one with the label kueue.x-k8s.io/queue-name of the job",),
    )


def test_a_stopped_queue_is_named_with_the_command_that_resumes_it():
    stopped = [("LocalQueue", "q"), ("ClusterQueue", "c")]
    assert look(facts(job(suspend=True), work=workload(), stopped=stopped))["quota"].details == (
        "LocalQueue q is stopped; start it again with: muster queue resume q",
        "ClusterQueue c is stopped; start it again with: muster queue resume c --cluster",
    )


@pytest.mark.parametrize(
    ("work", "text", "details"),
    [
        (workload(), "waiting in queue q, for 6m", ()),
        (
            workload(active=False),
            "held, for 6m; release it with: muster release j",
            (),
        ),
        (
            workload(condition("QuotaReserved"), condition("Evicted", message="why"), **HOLDS),
            "giving its quota back, for 5m",
            ("why",),
        ),
        (
            workload(condition("QuotaReserved"), **HOLDS),
            "reserved in ClusterQueue c, for 5m",
            ("waiting for its admission",),
        ),
        (
            workload(
                condition("QuotaReserved"),
                condition("Admitted"),
                admission={
                    "clusterQueue": "c",
                    "podSetAssignments": [
                        {"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "4", "memory": "2Gi"}}
                    ],
                },
            ),
            "admitted by ClusterQueue c through queue q, for 5m",
            ("main: cpu 4 (spot), memory 2Gi (no flavor)",),
        ),
    ],
)
def test_quota(work, text, details):
    found = look(facts(job(suspend=True), work=work))["quota"]
    assert (found.text, found.details) == (text, details)


def test_a_job_that_its_queue_has_not_taken_in():
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    unlabelled = job(suspend=True).source
    metadata = msgspec.structs.replace(unlabelled.metadata, labels=labels)
    subject = record_of(msgspec.structs.replace(unlabelled, metadata=metadata))
    assert look(facts(subject))["quota"].text == "waiting to be taken in by queue q: it has no Workload yet"


@pytest.mark.parametrize(("suspended", "state"), [(True, "here"), (False, "none")])
def test_a_job_whose_workload_may_not_be_seen(suspended, state):
    unlabelled = job(suspend=suspended).source
    metadata = msgspec.structs.replace(unlabelled.metadata, labels={"kueue.x-k8s.io/queue-name": "q"})
    subject = record_of(msgspec.structs.replace(unlabelled, metadata=metadata))
    found = look(facts(subject, unseen="you may not"))["quota"]
    assert (found.state, found.text) == (state, "it is for queue q; how it does there cannot be seen")
    assert found.details == ("you may not",)


def test_every_gate_that_is_left_is_named_with_who_takes_it_off():
    gated = msgspec.structs.replace(
        pod(0, "", "Pending", False),
        spec=msgspec.convert(
            {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}, {"name": "example.com/license"}]}, PodSpec
        ),
    )
    found = look(facts(pods=[gated, pod(1)], work=ADMITTED))["placement"]
    assert found.text == "1 of 2 pods have no node"
    assert found.details[1:] == (
        "gate example.com/license holds 1 pod: the program that set it takes it off, Muster does not",
        f"gate {TOPOLOGY_GATE} holds 1 pod: {WHEN_PLACED}",
    )


def test_where_pods_are_and_since_when():
    pods = [pod(0, "a"), pod(1, "a"), pod(2, "a"), pod(4, "a"), pod(3, "b")]
    found = look(facts(pods=pods, work=ADMITTED))
    assert found["placement"].text == "5 pods on 2 nodes, for 5m"
    assert found["placement"].details == ("a: ranks 0-2, 4", "b: rank 3")
    assert found["readiness"].text == "5 of 5 pods ready, for 5m"
    assert found["start"].text == "5 of 5 started"


def test_what_placement_and_readiness_wait_for():
    unplaced = msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": [UNSCHEDULABLE]}}, Pod)
    found = look(facts(pods=[unplaced, pod(1)], work=ADMITTED))["placement"]
    assert (found.text, found.details) == ("1 of 2 pods have no node", ("0/1 nodes",))
    waiting: dict[str, Any] = {
        "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}]
    }
    late = workload(
        condition("QuotaReserved"), condition("Admitted"), condition("PodsReady", "False", message="not yet"), **HOLDS
    )
    found = look(facts(pods=[pod(0, ready=False, **waiting), pod(1)], work=late))["readiness"]
    assert (found.text, found.details) == (
        "1 of 2 pods ready",
        ("rank 0 has an image that cannot be pulled: x (ErrImagePull)", "not yet"),
    )


def test_readiness_says_of_all_pods_at_once_that_nothing_is_heard_of_them():
    unready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    lost = [pod(rank, ready=False, conditions=[unready]) for rank in (0, 1)]
    assert look(facts(pods=lost, work=ADMITTED))["readiness"].details == ("all 2 pods are on n, which does not report",)


def test_many_nodes_are_counted():
    pods = [pod(rank, f"n{min(rank, NODES_NAMED)}") for rank in range(NODES_NAMED + 3)]
    found = look(facts(pods=pods, work=ADMITTED))["placement"]
    assert found.text == "19 pods on 17 nodes, for 5m"
    assert found.details == ("1 node with 3 pods", "16 nodes with 1 pod each")


def test_the_head_of_a_strict_queue_is_named():
    ahead = msgspec.convert([{"metadata": {"name": "w", "namespace": "ns"}, "priority": 7}], list[PendingWorkload])
    work = workload(pending(NO_ROOM))
    found = look(facts(job(suspend=True), work=work, ahead=ahead, strict=True, head="no memory at all"))["quota"]
    assert found.details[1:] == (
        "ahead of it: w (priority 7)",
        "nothing passes w (priority 7) in a StrictFIFO queue: no memory at all",
    )


def test_others_are_named_with_their_owners():
    ahead = msgspec.convert([{"metadata": {"name": "w", "namespace": "ns"}, "priority": 7}], list[PendingWorkload])
    owners = {("ns", "w"): "system:serviceaccount:muster-users:grace"}
    holders = [Holder("a", "c", NOW, {"cpu": 3000}, "unix:ada")]
    work = workload(pending(NO_ROOM))
    found = look(facts(job(suspend=True), work=work, ahead=ahead, owners=owners, holders=holders))["quota"]
    assert found.details[1:] == (
        "ahead of it: w of grace (priority 7)",
        "the missing quota is used by: a of ada (cpu 3, for 0s)",
    )


def test_the_needs_of_a_job_are_a_table_and_lines_in_columns():
    needs = [Need("f", "cpu", 6000, 4000, 3000, 1000, 5000), Need("gpu flavor", "nvidia.com/gpu", 1, 8, 0, 8, 0)]
    level = look(facts(job(suspend=True), work=workload(pending(NO_ROOM)), needs=needs))["quota"]
    [table] = [one for one in level.details if isinstance(one, DetailTable)]
    assert table.rows == (
        ("RESOURCE", "FLAVOR", "ASKED", "QUOTA", "USED", "AVAILABLE", "MISSING"),
        ("cpu", "f", "6", "4", "3", "1", "5"),
        ("nvidia.com/gpu", "gpu flavor", "1", "8", "0", "8", "0"),
    )
    at = level.lines.index("RESOURCE         FLAVOR       ASKED   QUOTA   USED   AVAILABLE   MISSING")
    assert level.lines[at + 2] == "nvidia.com/gpu   gpu flavor   1       8       0      8           0"


def test_what_may_start_with_fewer_is_told_so_and_not_that_it_is_more_than_there_is():
    work = workload(pending(NO_ROOM))
    podsets = (PodSet(name="main", count=8, min_count=1),)
    work = msgspec.structs.replace(work, spec=msgspec.structs.replace(work.spec, pod_sets=podsets))
    needs = [Need("f", "cpu", 6000, 4000, 3000, 1000, 4000)]
    details = look(facts(job(suspend=True), work=work, needs=needs))["quota"].lines
    assert details[-1] == "it starts with as few as 1 of 8"
    assert not [line for line in details if "more than there is" in line]


def test_who_can_never_start_is_not_told_who_holds_what():
    about = {
        "needs": [Need("f", "cpu", 6000, 4000, 3000, 1000, 4000)],
        "holders": [Holder("a", "c", NOW, {"cpu": 3000})],
        "verdict": NeverVerdict("no node is so large", certain=True),
    }
    details = look(facts(job(suspend=True), work=workload(pending(NO_ROOM)), **about))["quota"].lines
    assert not [line for line in details if "used by" in line or "more than there is" in line]


def test_failures_in_words_then_in_upstreams():
    ends = [
        pod(rank, phase="Failed", ready=False, containerStatuses=[{"name": "c", "state": {"terminated": state}}])
        for rank, state in enumerate([{"exitCode": 3, "reason": "Error", "message": "boom"}] * 7)
    ]
    first = "rank 0 ended with exit code 3: boom"
    told = "as the cluster says it: "
    over = job([("Failed", "too bad")])
    assert describe_failures(facts(over, ends[:1])) == [f"{told}too bad; rank 0: Error: exit code 3"]
    assert describe_failures(facts(job(), ends[:1])) == [first, f"{told}rank 0: Error: exit code 3"]
    lines = describe_failures(facts(over, ends))
    assert (lines[0], lines[5], len(lines)) == (first, "and 2 more", 7)
    assert describe_failures(facts(job(), [pod(0)])) == []


def test_a_job_of_a_jobset_that_was_interrupted_as_a_whole_has_not_failed():
    end = condition("Failed", reason="Interrupted", message="Pod default/j-0-x was evicted from node n")
    child = msgspec.convert(
        {"metadata": {"name": "j-a-0", "ownerReferences": [OWNER]}, "status": {"conditions": [end]}}, Job
    )
    source = msgspec.convert({"metadata": {"name": "j", "uid": "u"}, "spec": {"replicatedJobs": ROLES}}, JobSet)
    assert describe_failures(facts(record_of(source, [child]))) == []


def test_by_what_a_job_was_interrupted_last():
    evicted = "Pod default/j-0-x was evicted from node n"
    known = facts(job([("muster.dev/Interrupted", f"2 interruptions, the last: {evicted}")]), [pod(0)])
    assert f"   interrupted by the cluster 2 times, last: {evicted}" in render_lines(known, [])
    told = make_document(known, [])
    assert (told["interruptions"], told["lastInterruption"]) == (2, evicted)
    assert not [line for line in render_lines(facts(job(), [pod(0)]), []) if "interrupted" in line]


def test_an_interrupted_pod_of_a_job_that_goes_on_is_not_failed():
    target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    ended = pod(0, phase="Failed", ready=False, reason="Terminated", conditions=[target])
    found = [line.strip() for line in render_lines(facts(job(), [ended, pod(1)]), []) if "rank 0" in line]
    assert found == ["interrupted rank 0 ended with node n, which went down"]


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({}, "2 pods, may be scaled"),
        ({"muster.dev/elastic": "1:4"}, "2 pods now, between 1 and 4"),
        ({"kueue.x-k8s.io/elastic-job": "true"}, "2 pods, may be scaled"),
    ],
)
def test_size(annotations, text):
    subject = job().source
    meta = msgspec.structs.replace(subject.metadata, annotations=annotations)
    assert look(facts(record_of(msgspec.structs.replace(subject, metadata=meta))))["size"].text == text


def test_the_size_of_a_job_that_muster_does_not_scale():
    assert look(facts(work=ADMITTED))["size"].text == "2 pods, always", "its queue keeps the size"
    subject = job().source
    containers = {"spec": {"containers": [{"name": "c", "env": [{"name": "WORLD_SIZE", "value": "2"}]}]}}
    spec = msgspec.structs.replace(subject.spec, template=msgspec.convert(containers, PodTemplateSpec))
    meta = msgspec.structs.replace(subject.metadata, annotations={"kueue.x-k8s.io/elastic-job": "true"})
    fixed = facts(record_of(msgspec.structs.replace(subject, spec=spec, metadata=meta)), work=ADMITTED)
    assert look(fixed)["size"].text == "2 pods, always"


def test_another_cluster():
    found = look(facts(work=msgspec.structs.replace(ADMITTED, status=_status(cluster_name="west"))))
    assert (found["cluster"].state, found["cluster"].text) == ("done", "it runs in west")
    found = look(facts(work=msgspec.structs.replace(ADMITTED, status=_status(nominated_cluster_names=("a", "b")))))
    assert (found["cluster"].state, found["cluster"].text) == ("here", "it is tried in a, b")


def reserved(*tried: str, message: str = "") -> Any:
    """Quota is reserved here, and clusters are tried."""
    check = {"name": "multikueue", "state": "Pending", "lastTransitionTime": MINUTE, "message": message}
    return workload(condition("QuotaReserved"), admissionChecks=[check], nominatedClusterNames=tried, **HOLDS)


EAST = WorkerClusterState("east", "Connected", "", NOW)
WEST = WorkerClusterState("west", "Lost", "ClientConnectionFailed: refused", NOW - timedelta(minutes=3))


@pytest.mark.parametrize(
    ("work", "expected", "text", "details"),
    [
        pytest.param(
            reserved("east", "west"),
            ("done", "here", "later"),
            "it is tried in east, west",
            ("the first that has quota for all of it runs it", "west: ClientConnectionFailed: refused"),
            id="nominated",
        ),
        pytest.param(reserved("east"), ("done", "here", "later"), "it is tried in east", (), id="one"),
        pytest.param(
            reserved("east", "west", message=describe_barred(["west"])),
            ("done", "here", "later"),
            "it is tried in east",
            (describe_barred(["west"]),),
            id="barred in one",
        ),
        pytest.param(
            reserved("east", message=describe_barred(["east"])),
            ("done", "here", "later"),
            "no cluster can take it",
            (describe_barred(["east"]),),
            id="barred in all",
        ),
        pytest.param(
            reserved(),
            ("here", "here", "later"),
            "no cluster is asked yet",
            ("west: ClientConnectionFailed: refused",),
            id="none can be",
        ),
        pytest.param(
            workload(pending(NO_ROOM)), ("here", "later", "later"), "another one, of east, west", (), id="waits here"
        ),
        pytest.param(
            msgspec.structs.replace(ADMITTED, status=msgspec.structs.replace(ADMITTED.status, cluster_name="east")),
            ("done", "done", "here"),
            "it runs in east",
            (),
            id="runs",
        ),
        pytest.param(
            msgspec.structs.replace(ADMITTED, status=msgspec.structs.replace(ADMITTED.status, cluster_name="west")),
            ("done", "here", "later"),
            "it runs in west, which has been out of reach for 3m",
            ("ClientConnectionFailed: refused", "if that lasts, the job starts again in another cluster"),
            id="lost",
        ),
    ],
)
def test_a_job_that_another_cluster_runs(work, expected, text, details):
    subject = job(suspend=not is_true(work.status.conditions, "Admitted")).source
    spec = msgspec.structs.replace(subject.spec, managed_by="kueue.x-k8s.io/multikueue")
    handed_over = record_of(msgspec.structs.replace(subject, spec=spec))
    found = look(facts(handed_over, work=work, clusters=(EAST, WEST)))
    assert tuple(found[name].state for name in ("quota", "cluster", "placement")) == expected
    assert (found["cluster"].text, found["cluster"].details) == (text, details)


def test_what_becomes_of_pods_elsewhere_is_known_there():
    here = [
        JobLevel("quota", "done", "here"),
        JobLevel("cluster", "done", "east"),
        JobLevel("placement", "done", "2 pods"),
    ]
    there = [
        JobLevel("quota", "done", "there"),
        JobLevel("placement", "here", "no node"),
        JobLevel("size", "none", "2"),
    ]
    assert join_levels(here, there) == [*here[:2], there[1]]


def _status(**changes: Any) -> Any:
    return msgspec.structs.replace(ADMITTED.status, **changes)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (StartEstimate(None, Certainty.NONE, "nothing says when a ends"), "cannot say: nothing says when a ends"),
        (StartEstimate(NOW, Certainty.SURE, "there is room"), "any moment (sure: there is room)"),
        (StartEstimate(NOW + timedelta(seconds=90), Certainty.SURE, "x"), "at the latest in 90s, "),
        (StartEstimate(NOW + timedelta(minutes=5), Certainty.LIKELY, "x"), "in about 5m, "),
        (StartEstimate(NOW + timedelta(days=3), Certainty.GUESS, "x"), "in about 3d, 2026-01-"),
    ],
)
def test_when(estimate, text):
    assert describe_estimate(estimate, NOW).startswith(text)


ROLES = [
    {"name": "driver", "template": {"spec": {"parallelism": 1, "completions": 1}}},
    {"name": "workers", "template": {"spec": {"parallelism": 2, "completions": 2}}},
    {"name": "report", "template": {}, "dependsOn": [{"name": "workers", "status": "Complete"}]},
]


def of_role(role: str, rank: int, node: str) -> Pod:
    waits: dict[str, Any] = {"phase": "Pending", "ready": False, "conditions": [UNSCHEDULABLE]}
    made = pod(rank, node, **({} if node else waits))
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": role, "jobset.sigs.k8s.io/job-index": "0"}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


@pytest.mark.parametrize(
    ("nodes", "text", "details"),
    [
        (("n", "n", ""), "1 of 3 pods have no node (workers)", ["report: comes once workers is complete"]),
        (("", "n", ""), "2 of 3 pods have no node (driver, workers)", ["report: comes once workers is complete"]),
        (("n", "n", "n"), "3 pods on 1 node", ["n: ranks 0-2", "report: comes once workers is complete"]),
    ],
)
def test_of_a_jobset_it_names_the_roles_that_hold_it_up(nodes, text, details):
    pods = [
        of_role(role, rank, node)
        for (role, rank), node in zip((("driver", 0), ("workers", 0), ("workers", 1)), nodes, strict=True)
    ]
    level = look(facts(record_of(msgspec.convert({"spec": {"replicatedJobs": ROLES}}, JobSet)), pods))["placement"]
    assert level.text.startswith(text)
    assert [*level.details][-len(details) :] == details


def test_how_far_a_group_is_of_which_some_have_no_node():
    roles = [{"name": "a", "replicas": 4, "template": {"spec": {"parallelism": 1}}}]
    group = {"epoch": 1, "started": 3, "expected": 4}
    whole = record_of(
        msgspec.convert(
            {"metadata": {"name": "j"}, "spec": {"replicatedJobs": roles}, "status": {"groupScheduling": group}}, JobSet
        )
    )
    found = look(facts(whole, [pod(0, phase="Pending", ready=False), pod(1, "", "Pending", ready=False)]))
    assert found["start"] == JobLevel(
        "start", "later", "3 of 4 workers have started; their commands begin when all have started"
    )


def test_once_all_pods_have_ended_nothing_waits_for_pods():
    found = facts(pods=[pod(0, phase="Succeeded", ready=False), pod(1, phase="Succeeded", ready=False)])
    assert found.state.word == "Finishing"
    assert look(found)["placement"] == JobLevel("placement", "done", "its pods have ended")
    assert states(found) == "none none done none none none"


def test_a_cancelled_job_shows_its_quota_and_its_pods_until_they_have_ended():
    found = facts(cancelled("FailureTarget", "Failed"), [pod(0)], ADMITTED)
    assert states(found) == "done none done done done none"
    lines = render_lines(found, describe_levels(found))
    assert lines[0] == "j: cancelling"
    assert lines[2] == "ok quota      admitted by ClusterQueue c through queue q, for 5m"
    assert not any("failed" in line for line in lines)


def test_what_many_podsets_got_alike_is_said_once():
    def given(name: str, cpu: str) -> dict[str, Any]:
        return {"name": name, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": cpu}, "count": 1}

    assigned = [given(f"r{number}", "2" if number == 3 else "1") for number in range(17)]
    admission = {"clusterQueue": "c", "podSetAssignments": assigned}
    found = look(facts(work=workload(condition("QuotaReserved"), condition("Admitted"), admission=admission)))
    assert found["quota"].details == ("r0, r1, r2, r4, r5 and 11 more: cpu 1 (f) each", "r3: cpu 2 (f)")
