"""How a job becomes the record of a run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from muster.actions.parsing.scripts import Script, make_command
from muster.actions.submission.gang import Gang, SoftSignal
from muster.actions.submission.sweep import Sweep
from muster.actions.submission.workers import pod_spec
from muster.api.batch import Job
from muster.api.core import Container, Event, Pod
from muster.api.jobset import JobSet
from muster.api.kueue import Workload
from muster.insight.history.build import (
    MOST_NODES,
    MOST_TEXT,
    Trace,
    amend_run,
    command_of,
    lacks_pods,
    nodes_of,
    read_runs_from_events,
    read_times,
    run_of,
    run_of_workload,
    sum_traces,
    with_past,
)
from muster.insight.history.runs import PodRequests, Run, RunQuery
from muster.insight.jobs.state import find_ending
from muster.insight.record import record_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def ended(type_: str, seconds: int = 60, **about: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "lastTransitionTime": at(seconds)} | about


def job(*conditions: Any, command: Any = ("python", "t.py"), requests: Any = None, **status: Any) -> Any:
    meta = {
        "name": "j",
        "namespace": "lab",
        "uid": "u",
        "creationTimestamp": START,
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": {"muster.dev/submitted-by": "ada"},
    }
    container = {"name": "c", "command": list(command), "resources": {"requests": requests or {}}}
    template = {"spec": {"containers": [container]}}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    status = {"conditions": conditions} | status
    return record_of(msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Job))


def pod(rank: int = 0, code: int | None = 0, started: int | None = 10, node: str = "n", used: str = "") -> Pod:
    notes = {"batch.kubernetes.io/job-completion-index": str(rank)} | ({"muster.dev/usage": used} if used else {})
    state: dict[str, Any] = {}
    if started is not None:
        state = {"running": {"startedAt": at(started)}}
        if code is not None:
            state = {"terminated": {"exitCode": code, "startedAt": at(started), "finishedAt": at(50)}}
    phase = "Running" if code is None else "Failed" if code else "Succeeded"
    status = {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}
    meta = {"name": f"j-{rank}", "annotations": notes}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": status}, Pod)


def test_a_job_that_goes_on_is_no_record() -> None:
    assert run_of(job(), [pod(code=None)]) is None


@pytest.mark.parametrize(
    ("status", "pods", "lacks"),
    [
        ({"failed": 2}, [pod(0, 3), pod(1, 4)], False),
        ({"failed": 2}, [pod(1, 4)], True),
        ({"failed": 1, "succeeded": 1}, [pod(0), pod(1, code=None)], True),
        ({"failed": 0}, [], False),
    ],
)
def test_an_ended_job_lacks_pods_that_it_counted(status: Any, pods: Any, lacks: bool) -> None:
    assert lacks_pods(job(ended("Failed"), **status), pods) is lacks
    assert not lacks_pods(job(**status), pods)


def test_what_history_says_of_an_end_counts_once_pods_are_gone() -> None:
    failed = job(ended("Failed", reason="BackoffLimitExceeded", message="upstream's"), failed=2)
    run = run_of(failed, [pod(0, 3, node="a"), pod(1, 4, node="b")])
    assert run is not None
    known, left = with_past(failed, run), [pod(1, 4, node="b")]
    assert find_ending(known, left) == find_ending(failed, [pod(0, 3), pod(1, 4)])
    assert find_ending(known, left).code == 3
    assert nodes_of(known, left) == ["a", "b"]
    assert read_times(known, [], at(90))["runSeconds"] == 50
    assert with_past(failed, None) == failed
    assert with_past(job(ended("Complete")), run).past is None


def test_one_that_completed() -> None:
    later, first = pod(0, started=12, node="b", used="cpu=1.5,memory=10"), pod(1, node="a", used="cpu=1,memory=30")
    pods = [later, first]
    run = run_of(job(ended("Complete"), succeeded=2), pods)
    assert run == Run(
        uid="u",
        namespace="lab",
        name="j",
        kind="Job",
        state="Completed",
        submitted=START,
        ended=at(60),
        started=at(10),
        owner="ada",
        queue="q",
        command="python t.py",
        exit_code=0,
        workers=2,
        nodes=("a", "b"),
        cpu_seconds=2.5,
        memory_bytes=30,
        pod_requests=(PodRequests(2),),
    )


def test_a_record_says_what_a_simulation_needs() -> None:
    """The pods' own priority counts where no Workload is left."""
    meta = {"name": "w", "namespace": "lab"}
    workload = msgspec.convert({"metadata": meta, "spec": {"priority": 7}}, Workload)
    ours = job(ended("Complete"), requests={"cpu": "1500m", "memory": "1Gi"}, succeeded=2)
    source = ours.source
    limited = replace(source, spec=replace(source.spec, active_deadline_seconds=90))
    pods = [replace(pod(0), spec=replace(pod(0).spec, priority=5))]
    run = run_of(record_of(limited), pods, workload=workload)
    assert run is not None
    assert (run.priority, run.limit_seconds) == (7, 90)
    assert run.pod_requests == (PodRequests(2, {"cpu": "1500m", "memory": "1Gi"}),)
    without = run_of(ours, pods)
    assert without is not None
    assert (without.priority, without.limit_seconds) == (5, None)
    assert (run.waited_seconds, run.run_seconds) == (10, 50)


def test_one_that_failed_says_why_and_with_which_code() -> None:
    run = run_of(job(ended("Failed", reason="BackoffLimitExceeded"), failed=1), [pod(0), pod(1, code=3)])
    assert run is not None
    assert (run.state, run.exit_code, run.reason) == ("Failed", 3, "rank 1 ended with exit code 3")


def test_one_that_was_cancelled_or_deleted_has_no_code_of_its_own() -> None:
    cancelled = run_of(job(ended("Failed", reason="Cancelled")), [pod(code=143)])
    deleted = run_of(job(), [pod(code=None)], deleted=at(70))
    assert cancelled is not None
    assert deleted is not None
    assert (cancelled.state, cancelled.exit_code, cancelled.ended) == ("Cancelled", None, at(60))
    assert (deleted.state, deleted.exit_code, deleted.ended) == ("Deleted", None, at(70))


def test_one_that_is_cancelled_runs_until_its_workers_have_ended() -> None:
    cancelled = job(ended("Failed", reason="Cancelled"))
    running = read_times(cancelled, [pod(code=None)], at(90))
    assert (running["ended"], running["runSeconds"]) == (None, 80)
    assert read_times(cancelled, [pod(code=143)], at(90))["ended"] == at(60)


def test_one_that_never_started_waited_until_its_end() -> None:
    run = run_of(job(start_time=at(5)), [pod(code=None, started=None)], deleted=at(70))
    assert run is not None
    assert (run.started, run.waited_seconds, run.run_seconds) == (None, 70, None)


@pytest.mark.parametrize(("cpu", "requested"), [("500m", 1.0), ("4", 8.0), (None, None)])
def test_what_the_workers_request_together(cpu: str | None, requested: float | None) -> None:
    record = job(ended("Complete"), succeeded=2, requests={"cpu": cpu} if cpu else {})
    run = run_of(record, [])
    assert run is not None
    assert run.requested_cpus == requested


def test_trials_that_wait_for_their_turn_request_nothing() -> None:
    record = job(ended("Complete"), succeeded=2, requests={"cpu": "1"})
    assert isinstance(record.source, Job)
    spec = replace(record.source.spec, completions=100, parallelism=8)
    run = run_of(replace(record, source=replace(record.source, spec=spec)), [])
    assert run is not None
    assert run.requested_cpus == 8.0


def test_of_pods_that_are_gone_what_they_left_counts() -> None:
    gone = sum_traces([pod(started=3, node="z", used="cpu=4,memory=99")])
    run = run_of(job(ended("Complete"), succeeded=2), [pod(started=20, used="cpu=1,memory=1")], gone)
    assert run is not None
    assert (run.started, run.nodes, run.cpu_seconds, run.memory_bytes) == (at(3), ("n", "z"), 5.0, 99)
    without = run_of(job(ended("Complete"), succeeded=2, startTime=at(7)), [])
    assert without is not None
    assert (without.started, without.nodes, without.cpu_seconds) == (at(7), (), None)


def test_long_texts_and_many_nodes_are_cut() -> None:
    pods = [pod(node=f"n{number:04}") for number in range(MOST_NODES + 1)]
    run = run_of(job(ended("Complete"), command=["sh", "-c", "x" * (1 << 20)]), pods)
    assert run is not None
    assert (len(run.command), run.command[:9], run.command[-1]) == (MOST_TEXT, "sh -c xxx", "…")
    assert len(run.nodes) == MOST_NODES


def test_a_command_is_as_it_was_typed() -> None:
    run = run_of(job(ended("Complete"), command=["sh", "-c", "echo $$(HOME) 'a b'"]), [])
    assert run is not None
    assert run.command == """sh -c 'echo $(HOME) '"'"'a b'"'"''"""


@pytest.mark.parametrize(
    ("gang", "shown"),
    [
        (Gang("t", ["./t", "$(A)"], time_limit=9, soft_signal=SoftSignal("USR1", 1)), "./t '$(A)'"),
        (Gang("t", ["t", "{x}"], sweep=Sweep.parse("1,3", ())), "t '{x}'"),
        (Gang("t", ["t", "--lr={lr}", "{x}"], sweep=Sweep.parse("", ["lr=0.1,2"])), "t '--lr={lr}' '{x}'"),
        (Gang("t", ["t", "$lr"], sweep=Sweep.parse("1", ["lr=0.1,2"])), "t '$lr'"),
        (Gang("t", ["sh", "-c", "echo $0", "muster"], sweep=Sweep.parse("1,3", ())), "sh -c 'echo $0' muster"),
        (Gang("t", ["sh", "-c", "# one line", "x"]), "sh -c '# one line' x"),
        (Gang("t", ["python", "-c", "#\n", "x"]), "python -c '#\n' x"),
        (Gang("t", make_command(Script("job.sh", "#!/bin/bash -e\necho hi"), ["a b"])), "job.sh 'a b'"),
        (
            Gang(
                "t",
                make_command(Script("job.sh", "#MUSTER --time 9\nx"), []),
                sweep=Sweep.parse("1", ["lr=0.1,2"]),
                time_limit=9,
                soft_signal=SoftSignal("USR1", 1),
            ),
            "job.sh",
        ),
    ],
)
def test_a_command_is_shown_without_the_shells_before_it(gang: Gang, shown: str) -> None:
    [container] = msgspec.convert(pod_spec(gang, gang.parts[0], 0)["containers"], list[Container])
    assert command_of([container]) == shown


def test_what_became_known_later_is_how_much_was_used() -> None:
    first = run_of(job(ended("Failed", reason="BackoffLimitExceeded")), [pod(code=3)])
    later = run_of(job(ended("Failed", reason="BackoffLimitExceeded")), [], Trace(usage=None))
    used = run_of(job(ended("Failed", reason="BackoffLimitExceeded")), [pod(0, used="cpu=2,memory=7")])
    assert first is not None
    assert later is not None
    assert used is not None
    assert amend_run(first, later) == first
    assert amend_run(first, used) == msgspec.structs.replace(first, cpu_seconds=2.0, memory_bytes=7)
    assert amend_run(used, first) == used


def test_a_jobset_says_how_often_it_began_anew() -> None:
    role = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 1, "template": {"spec": {"containers": [
        {"name": "c", "args": ["a"]}]}}}}}  # fmt: skip
    told = ended("muster.dev/Interrupted", message="1 interruption, the last: why")
    source = {
        "metadata": {"name": "s", "uid": "u", "creationTimestamp": START},
        "spec": {"replicatedJobs": [role]},
        "status": {"restarts": 3, "restartsCountTowardsMax": 2, "conditions": [ended("Completed"), told]},
    }
    run = run_of(record_of(msgspec.convert(source, JobSet)), [])
    assert run is not None
    assert (run.kind, run.state, run.restarts, run.workers, run.command) == ("JobSet", "Completed", 2, 2, "a")
    assert run.interruptions == 1


def test_of_a_group_of_pods_its_workload_tells() -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"p{n}"} for n in range(2)]
    source = {
        "metadata": {"name": "g", "uid": "w", "creationTimestamp": START, "ownerReferences": owners},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 2}]},
        "status": {"conditions": [ended("Finished", reason="Succeeded")]},
    }
    run = run_of_workload(msgspec.convert(source, Workload), [pod()])
    assert run is not None
    assert (run.name, run.kind, run.state, run.queue, run.workers) == ("g", "Pod", "Completed", "q", 2)
    assert (run.started, run.nodes) == (at(10), ("n",))


def event(reason: str, seconds: int, uid: str = "u", kind: str = "Job", message: str = "") -> Event:
    about = {"kind": kind, "name": "j", "namespace": "lab", "uid": uid}
    source = {"reason": reason, "message": message, "lastTimestamp": at(seconds), "involvedObject": about}
    return msgspec.convert(source, Event)


def test_events_tell_little_more_than_ends() -> None:
    found = read_runs_from_events([
        event("SuccessfulCreate", 1),
        event("Completed", 60),
        event("BackoffLimitExceeded", 30, uid="v", message="Job has reached the specified backoff limit"),
        event("SuccessfulCreate", 1, uid="w"),
        event("Completed", 60, uid="x", kind="Pod"),
    ])  # fmt: skip
    assert [(run.uid, run.state, run.submitted, run.ended, run.exit_code) for run in found] == [
        ("u", "Completed", at(1), at(60), 0),
        ("v", "Failed", at(30), at(30), None),
    ]
    assert found[1].reason == "Job has reached the specified backoff limit"


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (RunQuery(), True),
        (RunQuery(names=("x", "tr*")), True),
        (RunQuery(names=("x",)), False),
        (RunQuery(owner="ada", queue="q", states=("Failed",), namespace="lab"), True),
        (RunQuery(owner="bob"), False),
        (RunQuery(since=at(60)), True),
        (RunQuery(since=at(61)), False),
        (RunQuery(until=at(1)), True),
        (RunQuery(until=at(0)), False),
    ],
)
def test_what_is_asked_for(wanted: RunQuery, matches: bool) -> None:
    run = Run("u", "lab", "train", "Job", "Failed", submitted=START, ended=at(60), owner="ada", queue="q")
    assert wanted.matches(run) is matches
