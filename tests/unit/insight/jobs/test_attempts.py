"""The starts of workers, and which of them are shown."""

from datetime import UTC, datetime

import pytest

from muster.api.batch import COMPLETION_INDEX, INDEXED, NON_INDEXED, Job, JobSpec
from muster.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from muster.api.meta import ObjectMeta
from muster.insight.jobs.attempts import choose_attempts, list_attempts
from muster.insight.record import record_of
from muster.runtime.containerlogs import KeptPod

RUNNING, ENDED = ContainerStateRunning(), ContainerStateTerminated()


def job(mode=INDEXED, workers=1):
    spec = JobSpec(completion_mode=mode, completions=workers, parallelism=workers)
    return record_of(Job(metadata=ObjectMeta(name="j", namespace="ns"), spec=spec))


def pod(name, rank, day, restarts=0, *, running=True, **state):
    created = datetime(2026, 1, day, tzinfo=UTC)
    status = ContainerStatus(
        name="c",
        restart_count=restarts,
        state=ContainerState(running=RUNNING) if running else ContainerState(),
        last_state=ContainerState(terminated=ENDED if restarts else None),
    )
    annotations = {COMPLETION_INDEX: rank} if rank else {}
    metadata = ObjectMeta(name=name, namespace="ns", creation_timestamp=created, annotations=annotations)
    return Pod(metadata=metadata, status=PodStatus(container_statuses=(status,)))


def kept(name, rank, day, *numbers):
    created = datetime(2026, 1, day, tzinfo=UTC).isoformat()
    return KeptPod(name, f"uid-{name}", rank, created, {"c": numbers or (0,)})


def shown(found, number=None, *, previous=False):
    return [
        (run.rank, run.pod, run.query.get("attempt", run.query.get("previous", "")))
        for run in choose_attempts(found, number, previous=previous)
    ]


@pytest.mark.parametrize(
    ("pods", "gone", "usual", "previous", "second"),
    [
        ([], [], [], [], []),
        ([pod("a", "0", 1)], [], [("0", "a", "")], [], []),
        ([pod("w", "0", 1, running=False)], [], [], [], []),
        # Those that are there, as ever, all of them.
        ([pod("b", "0", 2), pod("a", "0", 1)], [],
         [("0", "a", ""), ("0", "b", "")], [("0", "a", "")], [("0", "b", "")]),
        # One of a preempted worker is gone; one of another rank is, too, and no other came.
        ([pod("b", "0", 2)], [kept("a", "0", 1), kept("x", "1", 1)],
         [("0", "b", ""), ("1", "x", "0")], [("0", "a", "0")], [("0", "b", "")]),
        # Restarts within a pod count, of which the newest three are kept.
        ([pod("a", "0", 1, restarts=5)], [], [("0", "a", "")], [("0", "a", "4")], [("0", "a", "4")]),
        ([], [kept("a", "0", 1, 3, 4)], [("0", "a", "4")], [("0", "a", "3")], [("0", "a", "4")]),
        ([pod("r10", "10", 1), pod("r9", "9", 1)], [], [("9", "r9", ""), ("10", "r10", "")], [], []),
    ],
)  # fmt: skip
def test_starts_are_in_order(pods, gone, usual, previous, second):
    found = list_attempts(job(), pods, gone, ours=True)
    assert shown(found) == usual
    assert shown(found, previous=True) == previous
    assert shown(found, 2) == second


@pytest.mark.parametrize(
    ("workers", "usual", "previous", "second"),
    [
        # The pods of a job of one at a time are the starts of one worker.
        (1, ["zz", "aa"], ["zz"], ["zz"]),
        # Of more nothing says which came instead of which: each is a worker of its own.
        (2, ["mm", "zz", "aa"], [], []),
    ],
)
def test_pods_without_an_index_are_in_the_order_in_which_they_came(workers, usual, previous, second):
    pods, gone = [pod("j-aa", "", 3), pod("j-zz", "", 2)], [kept("j-mm", "mm", 1)]
    found = list_attempts(job(NON_INDEXED, workers), pods, gone, ours=True)
    assert [rank for rank, _, _ in shown(found)] == usual
    assert [rank for rank, _, _ in shown(found, previous=True)] == previous
    assert [rank for rank, _, _ in shown(found, 2)] == second


def test_other_servers_know_the_last_run_and_the_one_before():
    found = list_attempts(job(), [pod("a", "0", 1, restarts=5)], [], ours=False)
    assert shown(found, previous=True) == [("0", "a", "true")]
    assert len(found) == 2


def test_where_a_log_is():
    [there, gone] = list_attempts(job(), [pod("a", "0", 1)], [kept("b", "1", 1, 2)], ours=True)
    assert (there.path, there.query) == ("/api/v1/namespaces/ns/pods/a/log", {"container": "c"})
    assert gone.path == "/apis/batch/v1/namespaces/ns/jobs/j/log"
    assert gone.query == {"uid": "uid-b", "container": "c", "attempt": "2"}


def test_containers_come_in_the_order_in_which_they_start():
    statuses = [ContainerStatus(name=name, state=ContainerState(running=RUNNING)) for name in ("z", "main", "b")]
    spec = PodSpec(init_containers=(Container(name="z"),), containers=(Container(name="main"), Container(name="b")))
    template = PodTemplateSpec(spec=spec)
    made = record_of(Job(metadata=ObjectMeta(name="j", namespace="ns"), spec=JobSpec(template=template)))
    there = Pod(
        metadata=ObjectMeta(name="j-x"),
        status=PodStatus(init_container_statuses=(statuses[0],), container_statuses=tuple(statuses[1:])),
    )
    left = KeptPod("j-y", "u", "", "2026", {"b": (0,), "main": (0,), "z": (0,)})
    assert [run.container for run in list_attempts(made, [there], [], ours=True)] == ["z", "main", "b"]
    assert [run.container for run in list_attempts(made, [], [left], ours=True)] == ["z", "main", "b"]
