"""The jobs of a cluster whose state a simulation starts from."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Node, Pod
from muster.api.jobset import JobSet
from muster.api.kueue import LocalQueue, Workload
from muster.queueing import convert
from muster.simulation.engine.site import Site
from muster.simulation.engine.takeup import Durations, UnknownEndError, UnreadableJobError, take_up
from muster.simulation.scenario.state import ClusterState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTAINER = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}


NOTHING_DRAWN = Durations()


def at(seconds):
    return (NOW + timedelta(seconds=seconds)).isoformat()


def meta(name, uid="", owner=None, created=-500, **more):
    owners = [{"apiVersion": "v1", "name": "x", "controller": True, **owner}] if owner else []
    made = {"name": name, "namespace": "lab", "uid": uid or name, "creationTimestamp": at(created)}
    return made | {"ownerReferences": owners} | more


def make_pod(name, owner=None, node="n", started=-100, cpu="1", **more):
    container = CONTAINER | {"resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": node, "containers": [container]}
    status = {"phase": "Running", "startTime": at(started)}
    return msgspec.convert({"metadata": meta(name, owner=owner, **more), "spec": spec, "status": status}, Pod)


def make_job(name="j", **more):
    spec = {"template": {"spec": {"containers": [CONTAINER]}}} | more.pop("spec", {})
    return msgspec.convert({"metadata": meta(name, **more), "spec": spec}, Job)


def make_workload(name="w", owner=None, holds=True, count=2, **more):
    spec = {"queueName": "q", "podSets": [{"count": count, "template": {"spec": {"containers": [CONTAINER]}}}]}
    status = {}
    if holds:
        usage = {"flavors": {"cpu": "f"}, "resourceUsage": {"cpu": str(count)}, "count": count}
        conditions = [
            {"type": one, "status": "True", "reason": "x", "lastTransitionTime": at(-90)}
            for one in ("QuotaReserved", "Admitted")
        ]
        status = {
            "conditions": conditions,
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", **usage}]},
        }
    spec |= more.pop("spec", {})
    return msgspec.convert({"metadata": meta(name, owner=owner, **more), "spec": spec, "status": status}, Workload)


def take(workloads=(), jobs=(), job_sets=(), pods=(), nodes=("n",), durations=NOTHING_DRAWN):
    state = ClusterState("state.yaml", NOW, (), tuple(workloads), tuple(jobs), tuple(job_sets), tuple(pods), {})
    local = msgspec.convert({"metadata": {"name": "q", "namespace": "lab"}, "spec": {"clusterQueue": "cq"}}, LocalQueue)
    found = [msgspec.convert({"metadata": {"name": name}}, Node) for name in nodes]
    site = Site((), (local,), (), (), (), (), found, {})
    return take_up(state, site, convert.ConversionSettings(), durations)


JOB = {"kind": "Job", "apiVersion": "batch/v1", "uid": "j"}
LIMITED = {"spec": {"activeDeadlineSeconds": 300}}
EXPECTED = {"annotations": {"muster.dev/expected-duration": "200s"}}


def test_a_job_that_runs_goes_on_until_its_limit():
    residents = take([make_workload(owner=JOB)], [make_job(**LIMITED)], pods=[make_pod("a", JOB), make_pod("b", JOB)])
    [job] = residents.jobs
    assert (job.name, job.created, job.started, job.run_time, job.flavors) == ("x", -500.0, -100.0, 300.0, (("f",),))
    assert [sum(count for _, count in nodes) for nodes in job.nodes.values()] == [2]
    assert job.workload.queue == "cq"
    assert residents.pods == ()


def test_no_job_started_before_it_was_submitted():
    [job] = take([make_workload(owner=JOB)], [make_job(**LIMITED)], pods=[make_pod("a", JOB, started=-501)]).jobs
    assert (job.created, job.started) == (-500.0, -500.0)


def test_an_expectation_that_comes_first_counts_and_may_have_passed():
    pods = [make_pod("a", JOB)]
    [job] = take([make_workload(owner=JOB)], [make_job(**LIMITED, **EXPECTED)], pods=pods).jobs
    assert job.run_time == 200.0
    [late] = take([make_workload(owner=JOB)], [make_job(**EXPECTED)], pods=[make_pod("a", JOB, started=-450)]).jobs
    assert late.run_time == 450.0, "it ends at once"


def test_what_the_scenario_draws_comes_first():
    durations = Durations(lambda: 7.0, lambda: 9.0)
    waits = make_workload("v", {"kind": "Job", "uid": "k"}, holds=False)
    jobs = [make_job(**EXPECTED), make_job("k")]
    runs, waiting = take([make_workload(owner=JOB), waits], jobs, pods=[make_pod("a", JOB)], durations=durations).jobs
    if runs.started is None:
        runs, waiting = waiting, runs
    assert (runs.run_time, waiting.run_time, waiting.started, waiting.flavors) == (107.0, 9.0, None, None)


def test_without_any_end_the_scenario_has_to_say_one():
    with pytest.raises(UnknownEndError, match=r"there is neither a time limit nor .* of x$") as refusal:
        take([make_workload(owner=JOB)], [make_job()], pods=[make_pod("a", JOB)])
    assert refusal.value.field == "remaining"
    with pytest.raises(UnknownEndError, match=r"nor an expected duration of x, x, x and 2 more$") as refusal:
        take([make_workload(str(number), JOB, holds=False) for number in range(5)], [make_job()])
    assert refusal.value.field == "runTime"


def test_a_job_without_a_queue_runs_with_its_pods():
    pods = [make_pod("a", JOB), make_pod("b", JOB, cpu="3"), make_pod("c", JOB, node="")]
    [job] = take(jobs=[make_job(**LIMITED)], pods=pods).jobs
    assert (job.workload.queue, job.started, job.run_time) == ("", -100.0, 300.0)
    assert sorted(podset.count for podset in job.workload.podsets) == [1, 2]
    assert sum(count for nodes in job.nodes.values() for _, count in nodes) == 2


def test_the_pods_of_a_jobset_are_those_of_its_jobs():
    labels = {"jobset.sigs.k8s.io/jobset-uid": "s", "jobset.sigs.k8s.io/jobset-name": "set"}
    role = {"name": "r", "template": {"spec": {"activeDeadlineSeconds": 250, "template": {"spec": {}}}}}
    job_set = msgspec.convert({"metadata": meta("set", "s"), "spec": {"replicatedJobs": [role]}}, JobSet)
    owner = {"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2", "uid": "s"}
    child = make_job("set-r-0", uid="child", owner=owner)
    pods = [make_pod("p", JOB | {"uid": "child"}, labels=labels)]
    [job] = take([make_workload(owner=owner)], [child], [job_set], pods).jobs
    assert (job.started, job.run_time) == (-100.0, 250.0)


def test_the_pods_of_a_group_own_its_workload():
    pods = [make_pod("p"), make_pod("o")]
    workload = make_workload(owner={"kind": "Pod", "uid": "p"}, spec={"maximumExecutionTimeSeconds": 400})
    residents = take([workload], pods=pods)
    assert [(job.started, job.run_time) for job in residents.jobs] == [(-100.0, 400.0)]
    assert [pod.metadata.name for pod in residents.pods] == ["o"]


def test_pods_of_no_job_stay_and_those_that_have_ended_or_wait_do_not():
    ended = msgspec.structs.replace(
        make_pod("e"), status=msgspec.convert({"phase": "Succeeded"}, type(make_pod("e").status))
    )
    daemon = make_pod("d", {"kind": "DaemonSet", "uid": "ds"})
    residents = take(pods=[ended, daemon, make_pod("w", node="")])
    assert [pod.metadata.name for pod in residents.pods] == ["d"]
    assert residents.jobs == ()


@pytest.mark.parametrize(
    "workload",
    [
        make_workload(holds=False, spec={"active": False}),
        make_workload(holds=False, deletionTimestamp=at(-1)),
    ],
)
def test_jobs_that_neither_run_nor_wait_are_left_out(workload):
    assert take([workload], durations=Durations(None, lambda: 1.0)).jobs == ()


REQUEUED = {"type": "Requeued", "reason": "x", "lastTransitionTime": at(-5)}


@pytest.mark.parametrize(
    ("status", "until"),
    [
        ({}, None),
        ({"requeueState": {"count": 1, "requeueAt": at(30)}}, NOW + timedelta(seconds=30)),
        ({"conditions": [REQUEUED | {"status": "False"}]}, None),
    ],
)
def test_a_job_that_backs_off_waits_for_that_time(status, until):
    waits = make_workload(owner=JOB, holds=False)
    waits = msgspec.structs.replace(waits, status=msgspec.convert(status, type(waits.status)))
    [job] = take([waits], [make_job(**LIMITED)]).jobs
    assert (job.until, job.flavors) == (until, None)


def test_without_nodes_a_job_runs_since_it_was_admitted():
    [job] = take([make_workload(owner=JOB)], [make_job(**LIMITED)], nodes=()).jobs
    assert job.started == -90.0


def test_an_admitted_job_whose_pods_are_not_on_nodes_has_not_started():
    [job] = take([make_workload(owner=JOB)], [make_job(**LIMITED)], pods=[make_pod("a", JOB, node="")]).jobs
    assert (job.started, job.run_time, job.flavors) == (None, 300.0, (("f",),))


@pytest.mark.parametrize("count", [-1, -(2**20)])
def test_an_invalid_workload_is_named(count):
    with pytest.raises(UnreadableJobError, match="Workload lab/w: has no pods"):
        take([make_workload(owner=JOB, count=count, holds=False)], [make_job(**LIMITED)])
