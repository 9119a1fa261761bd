"""How far a sweep is, and what its trials do."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.batch import Job
from muster.api.core import Pod
from muster.insight.history.build import run_of, with_past
from muster.insight.jobs.state import Ending, find_ending, find_job_state
from muster.insight.jobs.trials import Trials, make_trial_rows, rank_of_trial
from muster.insight.quota.state import QuotaState
from muster.insight.record import record_of


def sweep(array="10-13", size=4, conditions=(), **status):
    found = msgspec.convert(
        {
            "metadata": {"name": "s", "uid": "u", "annotations": {"muster.dev/array": array}},
            "spec": {
                "parallelism": 2,
                "completions": size,
                "completionMode": "Indexed",
                "backoffLimit": 2147483647,
                "backoffLimitPerIndex": 0,
            },
            "status": status | {"conditions": [{"status": "True"} | one for one in conditions]},
        },
        Job,
        strict=False,
    )
    return record_of(found)


def pod(index, phase="Running", code=None, node="n", reason=""):
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    state = {"terminated": {"exitCode": code, "message": f"line {index}"}} if code is not None else {}
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reason}]
    return msgspec.convert(
        {
            "metadata": {"name": f"s-{index}", "annotations": annotations},
            "spec": {"nodeName": node, "containers": [{"name": "c"}]},
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "c", "state": state}],
                "conditions": conditions if reason else [],
            },
        },
        Pod,
        strict=False,
    )


def said(job, pods):
    state = find_job_state(job, pods)
    return state.word, state.ready, state.wanted, state.reason


@pytest.mark.parametrize(
    ("job", "pods", "expected"),
    [
        (sweep(), [], ("Pending", 0, 4, "waiting for its pods to be created")),
        (sweep(), [pod(0), pod(1)], ("Running", 2, 4, "2 running, 2 to go")),
        # One has no node, or fails, or ends before the status says so: the others go on.
        (sweep(), [pod(0), pod(1, "Pending", node="", reason="full")], ("Running", 1, 4, "1 running, 3 to go")),
        (sweep(), [pod(0, "Succeeded"), pod(1)], ("Running", 2, 4, "1 running, 2 to go")),
        (sweep(completedIndexes="0,1"), [], ("Running", 2, 4, "2 to go")),
        (sweep(), [pod(0, "Failed", 3)], ("Running", 0, 4, "4 to go")),  # not counted yet
        (
            sweep(completedIndexes="0", failedIndexes="2,3"),
            [pod(1), pod(2, "Failed", 3)],
            ("Running", 2, 4, "1 running; 2 of 4 trials failed (12-13)"),
        ),
        (
            sweep(conditions=[{"type": "muster.dev/Interrupted", "message": "1 interruption, the last: Pod s-0 went"}]),
            [pod(0)],
            ("Running", 1, 4, "1 running, 3 to go; interrupted once, last: Pod s-0 went"),
        ),
        # None can go on.
        (sweep(), [pod(0, "Pending", node="", reason="full")], ("Pending", 0, 4, "full")),
        (sweep(completedIndexes="1"), [pod(0, "Pending", node="", reason="full")], ("Pending", 1, 4, "full")),
    ],
)
def test_it_runs_while_any_of_its_trials_does(job, pods, expected):
    assert said(job, pods) == expected


@pytest.mark.parametrize(
    ("asked", "granted", "slowed"),
    [
        (3, 2, "2 at a time instead of 3, as there is quota for no more"),
        (3, 3, ""),
        (4, 2, ""),  # as many as there is room for
        (0, 0, ""),
    ],
)
def test_a_sweep_that_runs_fewer_at_a_time_than_asked_says_so(asked, granted, slowed):
    found = find_job_state(sweep(), [pod(0)], QuotaState("Admitted", asked=asked, granted=granted))
    assert (found.word, found.slowed) == ("Running", slowed)
    assert found.reason == "; ".join(filter(None, ("1 running, 3 to go", slowed)))


CANCELLED = {"type": "FailureTarget", "reason": "Cancelled", "message": "It was cancelled"}
FAILED = {"type": "Failed", "reason": "FailedIndexes", "message": "Job has failed indexes"}


@pytest.mark.parametrize(
    ("job", "pods", "expected"),
    [
        (sweep(conditions=[{"type": "Complete"}], succeeded=4, completedIndexes="0-3"), [], Ending(0)),
        (
            sweep(conditions=[FAILED], succeeded=2, completedIndexes="0,2", failedIndexes="1,3"),
            [pod(3, "Failed", 4), pod(1, "Failed", 3), pod(0, "Failed", 9)],  # that one went well the next time
            Ending(3, "failed: 2 of 4 trials failed (11,13): trial 11 ended with exit code 3: line 1"),
        ),
        (
            sweep(conditions=[FAILED], succeeded=3, completedIndexes="0-2", failedIndexes="3"),
            [],
            Ending(1, "failed: 1 of 4 trials failed (13)"),
        ),
        (
            sweep(
                "0-999:2",
                500,
                [FAILED | {"reason": "MaxFailedIndexesExceeded"}],
                failedIndexes=",".join(map(str, range(0, 500, 2))),
            ),
            [],
            Ending(
                1,
                "failed: 250 of 500 trials failed (0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60,64,68,72,76,80,...)",
            ),
        ),
        (
            sweep(conditions=[{"type": "Failed", "reason": "DeadlineExceeded"}], failedIndexes="0"),
            [],
            Ending(124, "failed: it ran into its time limit"),
        ),
    ],
)
def test_how_it_ended(job, pods, expected):
    assert find_ending(job, pods) == expected


def tried(index, phase, failures=0, code=None, started=0, ended=0):
    """A pod of a trial, with how many failed before it."""
    found = msgspec.to_builtins(pod(index, phase, code))
    began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=started)
    found["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = str(failures)
    found["status"]["startTime"] = began
    if code is not None:
        found["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = began + timedelta(seconds=ended)
    return msgspec.convert(found, Pod, strict=False)


GONE = "its pod is gone"
GRID = '{"lr":["0.1","0.01"],"depth":["2","3"]}'
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def rows(job, pods):
    return [
        (row["index"], row["state"], row["tries"], row["seconds"], row["reason"])
        for row in make_trial_rows(job, pods, NOW)
    ]


def test_each_trial_is_shown_as_its_last_try():
    job = sweep(completedIndexes="0", failedIndexes="3")
    pods = [
        tried(1, "Running", 2, started=50),
        tried(1, "Failed", 1, code=1, ended=3),
        tried(0, "Succeeded", code=0, ended=9),
        tried(3, "Failed", code=4, ended=7),
    ]
    assert rows(job, pods) == [
        (10, "Completed", 1, 9, ""),
        (11, "Running", 3, 10, ""),
        (12, "Pending", 0, None, ""),
        (13, "Failed", 1, 7, "ended with exit code 4: line 3"),
    ]


@pytest.mark.parametrize(
    ("conditions", "pods", "state"),
    [
        ([], [pod(0, "Succeeded")], "Completed"),  # before its Job has counted it
        ([], [pod(0, "Failed", 3)], "Retrying"),
        ([], [pod(0, "Pending")], "Starting"),
        ([], [pod(0, "Pending", node="")], "Pending"),
        ([FAILED], [], "Cancelled"),
        ([FAILED], [pod(0, "Failed", 137)], "Failed"),
        ([CANCELLED], [pod(0, "Running")], "Cancelling"),
        ([CANCELLED], [], "Cancelled"),
        ([CANCELLED], [pod(0, "Failed", 143)], "Failed"),
    ],
)
def test_what_a_trial_does(conditions, pods, state):
    assert rows(sweep(conditions=conditions), pods)[0][1] == state


def test_of_trials_whose_pods_are_gone_the_history_says_what_it_knows():
    failed = sweep(conditions=[FAILED | {"lastTransitionTime": NOW}], failed=2, failedIndexes="1,3", succeeded=2,
                   completedIndexes="0,2")  # fmt: skip
    run = run_of(failed, [pod(1, "Failed", 3), pod(3, "Failed", 4)])
    told = {row["index"]: (row["node"], row["reason"]) for row in make_trial_rows(with_past(failed, run), [], NOW)}
    assert told == {10: ("n", ""), 11: ("n", "ended with exit code 3: line 1"), 12: ("n", ""), 13: ("n", GONE)}
    assert [row["reason"] for row in make_trial_rows(failed, [], NOW)] == ["", GONE, "", GONE]


def test_a_trial_of_a_grid_has_its_values():
    job = sweep()
    job.metadata.annotations["muster.dev/grid"] = GRID
    assert make_trial_rows(job, [], NOW)[1]["values"] == {"lr": "0.01", "depth": "3"}  # its index is 11


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
RANKS = st.sets(st.integers(0, 3))


@given(
    st.lists(st.tuples(st.integers(0, 5), PHASES, st.integers(0, 3)), max_size=8),
    RANKS,
    RANKS,
    RANKS,
    st.sampled_from([(), (FAILED,), (CANCELLED,)]),
)
def test_the_states_are_those_of_the_rows(pods, done, failed, cancelled_ranks, conditions):
    def text(ranks):
        return ",".join(map(str, sorted(ranks)))

    job = cancelled(text(cancelled_ranks), conditions, completedIndexes=text(done), failedIndexes=text(failed - done))
    trials = Trials(job, [tried(rank, phase, failures) for rank, phase, failures in pods])
    states = [row["state"] for row in trials.make_rows(range(len(trials)), NOW)]
    expected = {state: [rank for rank, other in enumerate(states) if other == state] for state in states}
    assert {state: list(ranks) for state, ranks in trials.ranks_by_state.items()} == expected


@pytest.mark.parametrize(("index", "rank"), [("10", "0"), ("13", "3"), ("010", "0")])
def test_a_trial_is_found_by_its_index(index, rank):
    assert rank_of_trial(sweep(), index) == rank


@pytest.mark.parametrize("index", ["9", "14", "x", "-1", "", "1" * 5000, "١٠"])
def test_a_trial_that_there_is_not(index):
    with pytest.raises(ValueError, match=r"s has no trial .*: they are 10-13"):
        rank_of_trial(sweep(), index)


def test_what_is_no_sweep_has_no_trials():
    with pytest.raises(ValueError, match="s is no sweep: its workers have ranks"):
        rank_of_trial(sweep("what"), "1")


def cancelled(indexes, conditions=(), **status):
    job = sweep(conditions=conditions, **status)
    job.metadata.annotations["muster.dev/cancelled-indexes"] = indexes
    return job


def test_cancelled_trials_are_not_told_as_failed():
    job = cancelled("1-2", failedIndexes="1-3")
    assert said(job, [pod(0)]) == (
        "Running", 1, 4, "1 running; 1 of 4 trials failed (13); 2 of 4 trials cancelled (11-12)",
    )  # fmt: skip
    assert str(find_job_state(job, [pod(0)]).count) == "0 of 4 done, 1 failed, 2 cancelled, 1 running"


def test_a_cancelled_trial_is_cancelling_while_its_pod_runs():
    job = cancelled("0-2", completedIndexes="0")
    states = [row["state"] for row in make_trial_rows(job, [pod(1), pod(3)], NOW)]
    assert states == ["Completed", "Cancelling", "Cancelled", "Running"]
