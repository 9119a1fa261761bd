"""What becomes of a Job elsewhere, told as its own API server takes it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.multicluster.mirrors.merging import merged, plain

from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.validation.jobs.job import validate_status_update
from muster.jobs.job.conditions import finish
from muster.multicluster.mirrors.job import JobMirror

MIRROR = JobMirror()
NOW = datetime(2026, 1, 2, tzinfo=UTC)
T0, T1, T2 = (f"2026-01-01T0{hour}:00:00Z" for hour in range(3))


def job(status: Any = None, *, suspend: bool = False, **spec: Any) -> Job:
    shape = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"} | spec
    created = {"creationTimestamp": "2025-12-31T00:00:00Z"}
    return JOB.typed({"metadata": created, "spec": {"suspend": suspend, **shape}, "status": status or {}})


def patched(local: Job, patch: Any) -> Job:
    """The Job after a merge patch of its status."""
    return msgspec.structs.replace(
        local, status=msgspec.convert(merged(msgspec.to_builtins(local.status), patch), type(local.status))
    )


def shown(local: Job, remote: Job) -> Any:
    """The status that the local Job has then; None if it has to wait."""
    patch = MIRROR.status(local, remote)
    if patch is None:
        return None
    after = patched(local, patch)
    assert [str(error) for error in validate_status_update(after, local)] == []
    assert MIRROR.status(after, remote) == {}, "and then nothing is left to be written"
    return plain(after.status)


def conditions(*types: str) -> Any:
    return [{"type": type_, "status": "True", "lastTransitionTime": T2} for type_ in types]


RUNNING = {"startTime": T0, "active": 3, "ready": 2}
RESTING = {"conditions": conditions("Suspended")}
DONE = {
    "startTime": T0,
    "completionTime": T1,
    "succeeded": 3,
    "conditions": conditions("SuccessCriteriaMet", "Complete"),
}
BROKEN = {"startTime": T0, "failed": 1, "conditions": conditions("FailureTarget", "Failed")}


def at_end(status: Any) -> Any:
    """As it is shown: nothing runs any more."""
    return status | {"ready": 0}


@pytest.mark.parametrize(
    ("local", "remote", "expected"),
    [
        ({}, RUNNING, RUNNING),
        (RUNNING, RUNNING, RUNNING),
        (RUNNING, RUNNING | {"active": 1, "ready": 1, "succeeded": 2, "completedIndexes": "0,2"},
         {"startTime": T0, "active": 1, "ready": 1, "succeeded": 2, "completedIndexes": "0,2"}),
        (RUNNING, RUNNING | {"uncountedTerminatedPods": {"succeeded": ["a"]}},
         RUNNING | {"uncountedTerminatedPods": {"succeeded": ["a"]}}),
        (RUNNING | {"uncountedTerminatedPods": {"succeeded": ["a"]}}, RUNNING, RUNNING),
        (RUNNING, DONE, at_end(DONE)),
        (RUNNING, BROKEN, at_end(BROKEN)),
        ({}, DONE, at_end(DONE)),
        # An end is told once it is one: what announces it could not be taken back.
        (RUNNING, RUNNING | {"conditions": conditions("FailureTarget")}, RUNNING),
        (RUNNING, RUNNING | {"conditions": conditions("SuccessCriteriaMet")}, RUNNING),
        # Kubernetes before 1.31 does not announce it.
        (RUNNING, DONE | {"conditions": conditions("Complete")},
         at_end(DONE)),
        (RUNNING, BROKEN | {"conditions": conditions("Failed")}, at_end(BROKEN)),
        # It runs anew, in another cluster.
        (RUNNING | {"failed": 2}, {"startTime": T1, "active": 3, "failed": 1},
         {"startTime": T0, "active": 3, "failed": 2}),
        ({"failed": 2}, {"startTime": T1, "active": 3, "failed": 3}, {"startTime": T1, "active": 3, "failed": 3}),
        (RUNNING | {"succeeded": 2, "completedIndexes": "0,1"}, RUNNING, RUNNING),
        # What makes no sense is made to fit.
        ({}, RUNNING | {"ready": 9, "succeeded": -1, "terminating": -1}, RUNNING | {"ready": 3, "terminating": 0}),
        ({}, {"startTime": T0, "completedIndexes": "0-7,x", "failedIndexes": "1"},
         {"startTime": T0, "completedIndexes": "0-2"}),
        ({}, DONE | {"active": 4, "terminating": 1}, at_end(DONE) | {"terminating": 0}),
        ({}, {"conditions": conditions("Complete")},
         {"startTime": T2, "completionTime": T2, "ready": 0,
          "conditions": conditions("SuccessCriteriaMet", "Complete")}),
        (RUNNING | {"startTime": T1}, DONE | {"completionTime": T0},
         at_end(DONE) | {"startTime": T1, "completionTime": T1}),
        ({}, DONE | BROKEN | {"conditions": conditions("Failed", "Complete")}, at_end(DONE) | {"failed": 1}),
        # Once ended, ended.
        (DONE, RUNNING, DONE),
        (DONE, BROKEN, DONE),
        (BROKEN, DONE, BROKEN),
    ],
)  # fmt: skip
def test_a_job_that_runs_is_shown_as_its_copy(local, remote, expected):
    assert shown(job(local), job(remote)) == plain(job(expected).status)


@pytest.mark.parametrize(
    ("shape", "local", "remote", "expected"),
    [
        ({"completionMode": "NonIndexed"}, {"succeeded": 2}, {"succeeded": 1}, {"succeeded": 2}),
        ({"completionMode": "NonIndexed"}, {}, {"completedIndexes": "0"}, {}),
        ({"completions": 5}, {"succeeded": 2}, {"succeeded": 1}, {"succeeded": 2}),  # as upstream asks
        ({}, {"succeeded": 2}, {"succeeded": 1}, {"succeeded": 1}),
        ({}, {}, {"failedIndexes": "1"}, {}),
        ({"backoffLimitPerIndex": 1}, {}, {"failedIndexes": "1"}, {"failedIndexes": "1"}),
        ({"backoffLimitPerIndex": 1}, {}, {"failedIndexes": "0-2", "completedIndexes": "1"},
         {"failedIndexes": "0,2", "completedIndexes": "1"}),
    ],
)  # fmt: skip
def test_counters_are_those_that_such_a_job_has(shape, local, remote, expected):
    assert shown(job(local, **shape), job(remote, **shape)) == expected


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ((True, {}), (False, RUNNING), None),  # it could not be started here any more
        ((True, {}), (True, RESTING), RESTING),
        ((True, RUNNING), (True, RUNNING), RUNNING),  # its pods are still ending
        ((True, RUNNING), (True, RESTING), RESTING),
        ((True, RUNNING), (False, RUNNING), None),
        ((True, {}), (False, DONE), at_end(DONE)),
        ((True, {}), (True, DONE), at_end(DONE)),
        ((True, {"startTime": T2}), (False, BROKEN), at_end(BROKEN)),
        ((False, RUNNING), (True, RESTING), RESTING | {"startTime": T0}),
    ],
)
def test_a_suspended_job_waits_until_it_may_show_what_runs(here, there, expected):
    (suspend, local), (suspend_there, remote) = here, there
    assert shown(job(local, suspend=suspend), job(remote, suspend=suspend_there)) == expected


@pytest.mark.parametrize(
    ("suspend", "status", "expected"),
    [
        (True, RUNNING | {"failed": 1, "terminating": 1}, {"failed": 1, "ready": 0}),
        (False, RUNNING | {"uncountedTerminatedPods": {"failed": ["a"]}}, {"startTime": T0, "ready": 0}),
        (True, {}, {"ready": 0}),
    ],
)
def test_of_a_job_whose_worker_is_lost_nothing_runs(suspend, status, expected):
    local = job(status, suspend=suspend)
    after = patched(local, MIRROR.make_stop_patch(local, NOW))
    assert validate_status_update(after, local) == []
    found = plain(after.status)
    assert is_true(after.status.conditions, "Suspended")
    assert {key: value for key, value in found.items() if key != "conditions"} == expected
    assert MIRROR.make_stop_patch(after, NOW + timedelta(hours=1)) == {}


def test_one_that_has_ended_has_nothing_to_stop():
    assert MIRROR.make_stop_patch(job(DONE), NOW) == {}


# Laws.

_TIMES = st.none() | st.integers(0, 5).map(lambda hour: f"2026-01-01T0{hour}:00:00Z")
_CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Suspended", "SuccessCriteriaMet", "FailureTarget", "Complete", "Failed", "Mine"]),
            "status": st.sampled_from(["True", "False"]),
            "lastTransitionTime": _TIMES,
        }
    ),
    max_size=4,
)
_COUNT = st.integers(-2, 6)
_INDEXES = st.sampled_from(["", "0", "0-2", "1,3", "0-9", "2,1", "x"])
_UIDS = st.lists(st.sampled_from(["", "a", "b"]), max_size=3)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "conditions": _CONDITIONS,
        "startTime": _TIMES,
        "completionTime": _TIMES,
        "active": _COUNT,
        "succeeded": _COUNT,
        "failed": _COUNT,
        "ready": st.none() | _COUNT,
        "terminating": st.none() | _COUNT,
        "completedIndexes": _INDEXES,
        "failedIndexes": st.none() | _INDEXES,
        "uncountedTerminatedPods": st.none() | st.fixed_dictionaries({"succeeded": _UIDS, "failed": _UIDS}),
    },
)
SHAPES = st.sampled_from(
    [
        {},
        {"completions": 5},
        {"completionMode": "NonIndexed"},
        {"completionMode": "NonIndexed", "completions": None},
        {"backoffLimitPerIndex": 1},
        {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
    ]
)
# What happens: the Job here is suspended or not, and its worker says something, or is given up.
STEPS = st.lists(st.tuples(st.booleans(), st.none() | st.tuples(st.booleans(), STATUSES)), min_size=1, max_size=8)


@given(SHAPES, STEPS)
def test_whatever_workers_say_every_update_is_accepted_and_an_end_is_an_end(shape, steps):
    local = job(**shape)
    for suspend, said in steps:
        local = msgspec.structs.replace(local, spec=msgspec.structs.replace(local.spec, suspend=suspend))
        remote = job(said[1], suspend=said[0], **shape) if said is not None else None
        patch = MIRROR.make_stop_patch(local, NOW) if remote is None else MIRROR.status(local, remote)
        if patch is None:
            assert suspend, "the job waits to be started here"
            continue
        after = patched(local, patch)
        assert [str(error) for error in validate_status_update(after, local)] == []
        if finish(local) is not None:
            assert after == local
        elif remote is not None:
            assert (finish(after) is None) == (finish(remote) is None)
        local = after
