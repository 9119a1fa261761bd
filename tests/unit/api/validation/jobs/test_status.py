"""Pitfall 7: what whoever reconciles a Job may write to its status."""

from typing import Any

import pytest

from muster.api.batch import JOB
from muster.api.validation.jobs.job import validate_status_update

T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def conditions(*types: Any) -> Any:
    return {"conditions": [{"type": type_, "status": "True"} for type_ in types]}


RUNNING = {"startTime": T0, "active": 3}
DONE = conditions("SuccessCriteriaMet", "Complete") | {"startTime": T0, "completionTime": T1, "succeeded": 3}
FAILED = conditions("FailureTarget", "Failed") | {"startTime": T0, "failed": 1}
PER_INDEX = {"spec.backoffLimitPerIndex": 1}
C = "status.conditions: Invalid value: "


@pytest.mark.parametrize(
    ("edits", "before", "after", "expected"),
    [
        ({}, {}, RUNNING, []),
        ({}, RUNNING, DONE | {"completedIndexes": "0-2"}, []),
        ({}, RUNNING, FAILED, []),
        ({}, RUNNING, RUNNING | conditions("FailureTarget") | {"failed": 1}, []),
        # numbers
        ({}, {}, {"active": -1, "ready": -1, "terminating": -1, "succeeded": -1, "failed": -1},
         [f"status.{field}: Invalid value: -1: must be greater than or equal to 0"
          for field in ("active", "succeeded", "failed", "ready", "terminating")]
         + ["status.failed: Invalid value: -1: cannot decrease the failed counter"]),
        ({}, {"failed": 2}, {"failed": 1}, ["status.failed: Invalid value: 1: cannot decrease the failed counter"]),
        ({}, {"succeeded": 2}, {"succeeded": 1}, []),  # it may have been scaled down
        ({"spec.parallelism": 1}, {"succeeded": 2}, {"succeeded": 1}, []),  # and its parallelism changed since
        ({"spec.completionMode": "NonIndexed"}, {"succeeded": 2}, {"succeeded": 1},
         ["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"]),
        ({}, {"active": 1}, {"active": 1, "ready": 2},
         ["status.ready: Invalid value: 2: cannot set more ready pods than active"]),
        ({}, {}, {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}},
         ['status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
          'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"']),
        # conditions that exclude each other
        ({}, RUNNING, DONE | conditions("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"),
         [C + "cannot set Complete=True and Failed=true conditions",
          C + "cannot set Complete=True and FailureTarget=true conditions",
          C + "cannot set SuccessCriteriaMet=True and Failed=true conditions",
          C + "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"]),
        ({}, RUNNING, FAILED | conditions("Failed"),
         [C + "cannot set Failed=True condition without the FailureTarget=true condition"]),
        ({}, RUNNING, DONE | conditions("Complete"),
         [C + "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"]),
        # what never goes back
        ({}, DONE, {"startTime": T0, "completionTime": T1, "succeeded": 3},
         [('status.completionTime: Invalid value: "2026-01-01T01:00:00Z": '
          "cannot set completionTime when there is no Complete=True condition"),
          C + "cannot disable the terminal Complete=True condition",
          C + "cannot disable the SuccessCriteriaMet=True condition"]),
        ({}, FAILED, FAILED | conditions(),
         [C + "cannot disable the terminal Failed=True condition",
          C + "cannot disable the terminal FailureTarget=True condition"]),
        ({}, DONE, DONE | {"completionTime": "2026-01-01T02:00:00Z"},
         ['status.completionTime: Invalid value: "2026-01-01T02:00:00Z": field is immutable']),
        ({}, RUNNING, {"active": 3},
         ["status.startTime: Required value: startTime cannot be removed for unsuspended job"]),
        ({"spec.suspend": True}, RUNNING, {"active": 3}, []),
        ({}, {}, {"startTime": T1}, []),
        # what a finished Job must look like
        ({}, RUNNING, DONE | {"completionTime": None},
         ["status.completionTime: Required value: completionTime is required for Complete jobs"]),
        ({}, RUNNING, DONE | {"startTime": T1, "completionTime": T0},
         ['status.completionTime: Invalid value: "2026-01-01T00:00:00Z": must be equal to or after `startTime`',
          "status.startTime: Required value: startTime cannot be removed for unsuspended job"]),
        ({}, {}, FAILED | {"startTime": None, "active": 1, "terminating": 1,
                           "uncountedTerminatedPods": {"failed": ["a"]}},
         ["status.active: Invalid value: 1: active>0 is invalid for finished job",
          "status.startTime: Required value: startTime is required for finished job",
          'status.uncountedTerminatedPods: Invalid value: {"failed":["a"]}: must be empty for finished job',
          "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"]),
        # indexes
        ({}, {}, {"completedIndexes": "0,5"},
         ['status.completedIndexes: Invalid value: "0,5": error parsing completedIndexes: too large index: "5"']),
        # just after a scale-down the old text may stand
        ({}, {"completedIndexes": "0,5"}, {"completedIndexes": "0,5", "active": 1}, []),
        ({"spec.completionMode": "NonIndexed"}, {}, {"completedIndexes": "0"},
         [('status.completedIndexes: Invalid value: "0": '
          "cannot set non-empty completedIndexes when non-indexed completion mode")]),
        ({}, {}, {"failedIndexes": "0"},
         [('status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex is '
          "null")]),
        (PER_INDEX, {}, {"failedIndexes": "2,1"},
         [('status.failedIndexes: Invalid value: "2,1": '
          "error parsing failedIndexes: non-increasing order, previous: 2, current: 1")]),
        (PER_INDEX, {}, {"completedIndexes": "0,1", "failedIndexes": "1,2"},
         ['status.failedIndexes: Invalid value: "1,2": failedIndexes and completedIndexes overlap at index: 1']),
        # the success policy
        ({"spec.successPolicy": {"rules": [{"succeededCount": 1}]}}, RUNNING, DONE | conditions("Complete"),
         [C + "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
          C + "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"]),
        ({}, DONE | conditions("Complete"), DONE,
         [C + "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"]),
        # an old mistake does not stand in the way of something else
        ({}, FAILED | conditions("Failed"), FAILED | conditions("Failed") | {"ready": 0}, []),
    ],
)  # fmt: skip
def test_status_updates(
    indexed: Any, edit: Any, defaulted: Any, sentences: Any, edits: Any, before: Any, after: Any, expected: Any
) -> None:
    after = {key: value for key, value in after.items() if value is not None}
    old = defaulted(JOB, edit(indexed, edits | {"status": before}))
    new = defaulted(JOB, edit(indexed, edits | {"status": after}))
    assert sentences(validate_status_update(new, old)) == expected
