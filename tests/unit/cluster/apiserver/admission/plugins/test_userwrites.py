"""What a user of a system server may write into the status of a job, and into a Workload."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.jobset import JobSet
from muster.cluster.apiserver.admission.plugins.userwrites import is_cancellation, is_hold
from muster.jobs.ending import make_job_failure, make_jobset_failure
from muster.jobs.job.conditions import CANCELLED, FAILED, FAILURE_TARGET, Verdict

VERDICT = Verdict(False, CANCELLED, "It was cancelled")
SUSPENDED = {"type": "Suspended", "status": "False"}
TARGET = {"type": FAILURE_TARGET, "status": "True", "reason": "x"}
RUNNING: dict[str, Any] = {"active": 1, "ready": 1, "conditions": [SUSPENDED]}
MANAGER = {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}


def test_the_patches_of_a_cancellation_pass() -> None:
    patch = make_job_failure(Job(), VERDICT)["status"]
    new = RUNNING | {"conditions": [*RUNNING["conditions"], *patch["conditions"]]}
    assert is_cancellation(RUNNING, new, (FAILURE_TARGET,))
    patch = make_job_failure(msgspec.convert(MANAGER, Job), VERDICT)["status"]
    assert is_cancellation(RUNNING, {"conditions": [SUSPENDED, *patch["conditions"]]}, (FAILURE_TARGET, FAILED))
    assert not is_cancellation(RUNNING, {"conditions": [SUSPENDED, *patch["conditions"]]}, (FAILURE_TARGET,))


def test_the_patch_that_cancels_a_jobset_passes() -> None:
    old = {"conditions": [SUSPENDED, {"type": FAILED, "status": "False"}], "restarts": 1}
    patch = make_jobset_failure(msgspec.convert({"status": old}, JobSet), VERDICT, datetime(2026, 1, 1, tzinfo=UTC))
    new = msgspec.to_builtins(patch["status"])
    kept = [one for one in new["conditions"] if one["type"] == FAILED]
    assert is_cancellation(old, old | {"conditions": [SUSPENDED, *kept], "terminalState": FAILED}, (FAILED,))


@pytest.mark.parametrize(
    "change",
    [
        {"conditions": [SUSPENDED, {"type": "Complete", "status": "True"}]},
        {"conditions": [SUSPENDED, {"type": FAILED, "status": "True"}]},
        {"conditions": [SUSPENDED, TARGET | {"status": "False"}]},
        {"conditions": []},
        {"conditions": [SUSPENDED | {"status": "True"}]},
        {"conditions": [TARGET]},
        {"active": 0},
        {"active": 0, "conditions": [SUSPENDED, TARGET]},
        {"succeeded": 5},
        {"terminalState": FAILED},
    ],
)
def test_nothing_else_is_a_cancellation(change: dict[str, Any]) -> None:
    assert not is_cancellation(RUNNING, RUNNING | change, (FAILURE_TARGET,))


def test_a_cancellation_cannot_be_taken_back() -> None:
    old = RUNNING | {"conditions": [SUSPENDED, TARGET]}
    assert not is_cancellation(old, RUNNING, (FAILURE_TARGET,))
    assert is_cancellation(old, old, (FAILURE_TARGET,))
    ended = {"conditions": [{"type": FAILED, "status": "True"}], "terminalState": FAILED}
    assert not is_cancellation(ended, ended | {"terminalState": ""}, (FAILED,))


def test_a_workload_is_held_and_not_changed() -> None:
    old: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"active": True, "priority": 0, "podSets": [{}]}}
    for spec in ({"active": False, "priority": 0, "podSets": [{}]}, {"priority": 0, "podSets": [{}]}, old["spec"]):
        assert is_hold(old, old | {"spec": spec})
    for spec in (old["spec"] | {"priority": 9}, {"active": True}, old["spec"] | {"queueName": "b"}):
        assert not is_hold(old, old | {"spec": spec})
    assert not is_hold(old, old | {"metadata": {}})
    assert not is_hold(old, old | {"metadata": old["metadata"] | {"ownerReferences": [{"name": "b"}]}})
