"""Why pods failed, in a person's words."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.api.ours.oom import describe_excess
from muster.insight.jobs.failures import (
    LINE_LENGTH,
    describe_failures_so_far,
    explain_failure,
    explain_unheard,
    explain_waiting,
    find_failures,
    last_telling_line,
)
from muster.insight.record import JobEnd, JobRecord, record_of

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nValueError: boom\n'


def ended(code: int = 1, at: int = 0, **about: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": f"2026-01-01T00:00:{at:02}Z", "reason": "Error"} | about}


def pod(rank: int | None = 0, *states: Any, phase: str = "Failed", deleting: bool = False, **about: Any) -> Pod:
    index = {} if rank is None else {"batch.kubernetes.io/job-completion-index": str(rank)}
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    statuses = [{"name": f"c{number}", **state} for number, state in enumerate(states)]
    return msgspec.convert(
        {
            "metadata": {"name": f"j-{rank}-x", "annotations": index, **gone},
            "spec": {
                "nodeName": "n",
                "containers": [{"name": status["name"]} for status in statuses],
                "activeDeadlineSeconds": about.pop("limit", None),
            },
            "status": {"phase": phase, "containerStatuses": statuses} | about,
        },
        Pod,
    )


def job(failed: int = 0, limit: int = 6, deadline: int | None = None) -> JobRecord:
    spec = {"backoffLimit": limit, "activeDeadlineSeconds": deadline}
    return record_of(msgspec.convert({"metadata": {"name": "j"}, "spec": spec, "status": {"failed": failed}}, Job))


REFUSED = "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 8000, capacity: 8000"
STOPPED = {"type": "muster.dev/ClusterStopped", "status": "True", "reason": "TerminationByKubelet"}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        (pod(2, {"state": ended(3)}), "rank 2 ended with exit code 3"),
        (pod(2, {"state": ended(1, message=TRACEBACK)}), "rank 2 ended with exit code 1: ValueError: boom"),
        (pod(None, {"state": ended(1)}), "pod j-None-x ended with exit code 1"),
        (pod(0, {"state": ended(137)}), "rank 0 was ended by SIGKILL (exit code 137)"),
        (pod(0, {"state": ended(139, message="a\n")}), "rank 0 was ended by SIGSEGV (exit code 139): a"),
        (
            pod(0, {"state": ended(0, signal=15)}, {"state": ended(2, signal=15)}),
            "by SIGTERM (exit code 2) (container c1)",
        ),
        (pod(0, {"state": ended(255)}), "rank 0 ended with exit code 255"),
        (pod(0, {"state": ended(137, reason="OOMKilled")}), "rank 0 used more memory than it may, and was killed"),
        (
            pod(0, {"state": ended(137, message="step 7", reason="OOMKilled")}),
            "rank 0 used more memory than it may, and was killed: step 7",
        ),
        (
            pod(0, {"state": ended(137, message=describe_excess(1600 << 20, 1 << 30), reason="OOMKilled")}),
            "rank 0 was killed: it needed more memory than its limit of 1Gi (it used 1600Mi)",
        ),
        (
            pod(0, {"state": ended(128, reason="StartError", message='exec: "x": not found')}),
            'rank 0 could not be started: exec: "x": not found',
        ),
        (pod(0, {"state": ended(137, reason="ContainerStatusUnknown")}), "rank 0 was lost"),
        (pod(0, reason="OutOfcpu", message=REFUSED), "rank 0 was refused by node n: it has not enough cpu left"),
        (
            pod(0, reason="UnexpectedAdmissionError", message="Pod was rejected: no GPU"),
            "rank 0 was refused by node n: no GPU",
        ),
        (pod(0, reason="Evicted", message="low on disk"), "rank 0 was evicted from node n: low on disk"),
        (pod(0, {"state": ended(143)}, reason="DeadlineExceeded", limit=9), "rank 0 ran into its time limit of 9s"),
        (pod(0, {"state": ended(143)}, reason="Terminated"), "rank 0 was ended by the shutdown of node n"),
        (pod(0, conditions=[PREEMPTED]), "rank 0 was ended: preempted"),
        (pod(0, reason="NodeAffinity", message="no match"), "rank 0 failed: NodeAffinity: no match"),
        (pod(0), "rank 0 failed, and nothing says why"),
    ],
)
def test_a_failure_in_words(failed, text):
    [found] = find_failures(job(), [failed, pod(7, phase="Running"), pod(8, phase="Succeeded")])
    assert str(found).endswith(text)


def test_upstreams_words_are_kept():
    refused, failed = find_failures(job(), [pod(0, reason="OutOfcpu", message=REFUSED), pod(1, {"state": ended(3)})])
    assert refused.upstream == f"OutOfcpu: {REFUSED}"
    assert (failed.upstream, failed.code) == ("Error: exit code 3", 3)


def test_those_that_were_asked_to_go_are_no_reason():
    found = find_failures(
        job(),
        [
            pod(0, {"state": ended(143, at=1)}, deleting=True),
            pod(11, {"state": ended(7, at=2)}),
            pod(3, {"state": ended(8, at=2)}),
            pod(2, {"state": ended(9, at=3)}),
        ],
    )
    assert [one.who for one in found] == ["rank 3", "rank 11", "rank 2"]
    [asked] = find_failures(job(), [pod(0, {"state": ended(143)}, deleting=True)])
    assert asked.who == "rank 0"


OVER_LIMIT = "Job has reached the specified backoff limit: "
CONTAINER = "Container c0 for pod ns/j-2-x failed with exit code "


@pytest.mark.parametrize(
    ("message", "pods", "said"),
    [
        (f"{OVER_LIMIT}{CONTAINER}3", [], "rank 2 ended with exit code 3"),
        (f"{OVER_LIMIT}{CONTAINER}137", [], "rank 2 was ended by SIGKILL (exit code 137)"),
        (f"{CONTAINER}3 matching FailJob rule at index 0", [], "rank 2 ended with exit code 3"),
        (f"{OVER_LIMIT}Pod ns/j-2-x was deleted", [], "rank 2 was deleted"),
        (
            f"{OVER_LIMIT}Pod ns/j-2-x was deleted: preempted by ns/urgent",
            [],
            "rank 2 was deleted: preempted by ns/urgent",
        ),
        (f"{OVER_LIMIT}Pod ns/other was deleted", [], "pod other was deleted"),
        (
            f"{OVER_LIMIT}{CONTAINER}3",
            [pod(0, {"state": ended(143)}, deleting=True), pod(1, {"state": ended(9)})],
            "rank 2 ended with exit code 3; 1 more pod failed",
        ),
        # The pod itself is there, and knows more.
        (
            f"{CONTAINER}3 matching",
            [pod(2, {"state": ended(3, message=TRACEBACK)})],
            "rank 2 ended with exit code 3: V",
        ),
    ],
)
def test_who_failed_though_the_pod_is_gone(message, pods, said):
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": message}
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    document = {"metadata": {"name": "j"}, "spec": spec, "status": {"conditions": [condition]}}
    failed = record_of(msgspec.convert(document, Job))
    assert failed.end is not None
    assert explain_failure(failed, failed.end, pods).startswith(said)


def test_the_only_pod_of_a_job_that_was_deleted_is_not_the_job():
    end = JobEnd("Failed", "BackoffLimitExceeded", f"{OVER_LIMIT}Pod ns/j-x was deleted", job="j")
    only = record_of(msgspec.convert({"metadata": {"name": "j"}, "spec": {"completions": 1}}, Job))
    assert explain_failure(only, end, []) == "its pod was deleted"


def test_those_that_ended_with_the_cluster_are_no_reason():
    stopped = pod(0, {"state": ended(143, at=1)}, conditions=[STOPPED], reason="Terminated")
    assert [one.who for one in find_failures(job(), [stopped, pod(3, {"state": ended(8, at=2)})])] == ["rank 3"]
    assert describe_failures_so_far(job(), [stopped]) == ""


def test_an_interruption_is_told_apart_from_failures():
    told = {
        "type": "muster.dev/Interrupted",
        "status": "True",
        "message": "2 interruptions, the last: Pod x was evicted",
    }
    found = {"metadata": {"name": "j"}, "spec": {"backoffLimit": 6}, "status": {"failed": 1, "conditions": [told]}}
    known = record_of(msgspec.convert(found, Job))
    assert describe_failures_so_far(known, []) == "interrupted 2 times, last: Pod x was evicted; 1 pod failed, 6 may"
    jobset = {
        "metadata": {"name": "j"},
        "spec": {"replicatedJobs": []},
        "status": {"restarts": 3, "conditions": [told]},
    }
    known = record_of(msgspec.convert(jobset, JobSet))
    assert describe_failures_so_far(known, []) == "interrupted 2 times, last: Pod x was evicted; it was restarted once"


@pytest.mark.parametrize("type", ["FailureTarget", "Failed"])
def test_the_pods_of_a_job_that_was_interrupted_are_not_failed(type):
    meta = {"name": "js-w-0", "uid": "w", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": "u"}]}
    condition = {"type": type, "status": "True", "reason": "Interrupted"}
    spec, status = {"backoffLimit": 0, "completionMode": "Indexed"}, {"failed": 2, "conditions": [condition]}
    part = msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Job)
    whole = record_of(msgspec.convert({"metadata": {"name": "js", "uid": "u"}, "spec": {}}, JobSet), [part])
    follower = msgspec.to_builtins(pod(1, {"state": ended(1, message="peer closed the connection")}))
    follower["metadata"]["ownerReferences"] = [{"apiVersion": "", "kind": "Job", "name": "js-w-0", "uid": "w"}]
    pods = [pod(0, {"state": ended(143)}, conditions=[PREEMPTED]), msgspec.convert(follower, Pod, strict=False)]
    assert whole.failed == 0
    assert describe_failures_so_far(whole, pods) == ""


@pytest.mark.parametrize(
    ("limit", "cause"),
    [
        pytest.param(0, "rank 1 was ended by SIGSEGV (exit code 139)", id="the first failure of a gang"),
        pytest.param(6, "rank 0 ended with exit code 1: Connection closed by peer", id="the last one of single pods"),
    ],
)
def test_a_job_that_restarts_names_a_failure(limit, cause):
    template = {"spec": {"backoffLimit": limit, "template": {"spec": {"containers": []}}}}
    roles = [{"name": "r", "replicas": 1, "template": template}]
    spec, status = {"replicatedJobs": roles, "failurePolicy": {"maxRestarts": 1}}, {"restarts": 1}
    gang = record_of(msgspec.convert({"metadata": {"name": "j"}, "spec": spec, "status": status}, JobSet))
    pods = [
        pod(0, {"state": ended(1, at=2, message="Connection closed by peer")}),
        pod(1, {"state": ended(139, at=1)}),
    ]
    assert describe_failures_so_far(gang, pods) == f"it was restarted once; 2 pods failed: {cause}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("one\ntwo\n\n  \n", "two"),
        ("----\nProcess name: [[1,1],0]\nExit code:    7\n--------\n", "Exit code:    7"),
        ("...\n---\n", "---"),
        ("10%\r50%\r", "50%"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07alert\x07", "red alert"),
        ("\x1b[2J\x1b[1;1H", ""),
        ("127.0.0.1\tbox\N{NO-BREAK SPACE}one\t\n", "127.0.0.1 box one"),
        ("x" * 500, "x" * (LINE_LENGTH - 3) + "..."),
    ],
)
def test_the_last_line(text, line):
    assert last_telling_line(text) == line


@given(st.text())
def test_a_line_never_steers_a_terminal(text):
    assert last_telling_line(text).isprintable()
    assert len(last_telling_line(text)) <= LINE_LENGTH


OVERDUE = JobEnd("Failed", "DeadlineExceeded", deadline=10)
LIMIT = JobEnd("Failed", "BackoffLimitExceeded", "upstream's")


@pytest.mark.parametrize(
    ("end", "pods", "text"),
    [
        (LIMIT, [pod(1, {"state": ended(3)})], "rank 1 ended with exit code 3"),
        (
            LIMIT,
            [pod(rank, {"state": ended(3, at=rank)}) for rank in range(3)],
            "rank 0 ended with exit code 3; 2 more pods failed",
        ),
        (
            JobEnd("Failed", "DeadlineExceeded", deadline=10),
            [pod(1, {"state": ended(143)})],
            "it ran into its time limit of 10s",
        ),
        (LIMIT, [], "upstream's"),
    ],
)
def test_why_a_job_failed(end, pods, text):
    assert explain_failure(job(), end, pods) == text


@pytest.mark.parametrize(
    ("subject", "pods", "text"),
    [
        (job(), [pod(0, phase="Running")], ""),
        (job(1), [], "1 pod failed, 6 may"),
        (
            job(),
            [pod(1, {"state": ended(1, at=1, message="first")}), pod(0, {"state": ended(2, at=2, message="last")})],
            "2 pods failed, 6 may: rank 0 ended with exit code 2: last",
        ),
        (job(), [pod(1, {"state": ended(143)}, deleting=True)], ""),
    ],
)
def test_why_pods_failed_so_far(subject, pods, text):
    assert describe_failures_so_far(subject, pods) == text


def waiting(reason: str, message: str = "", **last: Any) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}, "lastState": last}


@pytest.mark.parametrize(
    ("state", "texts"),
    [
        (waiting("ContainerCreating"), []),
        (
            waiting("CreateContainerConfigError", 'configmap "x" not found'),
            ['rank 0 cannot be set up: configmap "x" not found'],
        ),
        (waiting("ImagePullBackOff"), ["rank 0 has an image that cannot be pulled"]),
        (waiting("Odd", "why"), ["rank 0 waits (Odd): why"]),
        (
            waiting("CrashLoopBackOff", "back-off 10s", **ended(3, message="boom")),
            ["rank 0 ended with exit code 3, and is started again after a pause: boom"],
        ),
    ],
)
def test_what_a_container_waits_for(state, texts):
    assert explain_waiting(job(), pod(0, state, phase="Pending")) == texts


@pytest.mark.parametrize(
    ("started", "told"),
    [(1, "not all workers had started after 60 s: 1 of 2 had"), (2, "group scheduling timed out: held up by another")],
)
def test_a_group_says_what_it_waited_for(started: int, told: str) -> None:
    document = {
        "metadata": {"name": "j"},
        "spec": {"replicatedJobs": [], "groupSchedulingConfig": {"timeoutAfterSeconds": 60}},
        "status": {"groupScheduling": {"epoch": 1, "started": started, "expected": 2}},
    }
    end = JobEnd("Failed", "DeadlineExceeded", "group scheduling timed out: held up by another")
    assert explain_failure(record_of(msgspec.convert(document, JobSet)), end, []) == told


def test_a_pod_on_a_lost_node_waits_for_nothing_of_its_own() -> None:
    lost = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    found = pod(2, {"state": {"running": {}}}, phase="Running", conditions=[lost])
    assert explain_waiting(job(), found) == ["rank 2 is on n, which does not report"]


@pytest.mark.parametrize(
    ("lost", "heard", "said"),
    [
        ([], [0], ""),
        ([2], [0, 1], "rank 2 is on n, which does not report"),
        ([0], [], "rank 0 is on n, which does not report"),
        ([1, 2], [0], "2 of 3 pods are on n, which does not report"),
        ([0, 1, 2], [], "all 3 pods are on n, which does not report"),
    ],
)
def test_what_is_on_lost_nodes_is_said_of_all_pods_at_once(lost: list[int], heard: list[int], said: str) -> None:
    unready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    live = [pod(rank, phase="Running", conditions=[unready]) for rank in lost]
    assert explain_unheard(job(), [*live, *(pod(rank, phase="Running") for rank in heard)]) == said
