"""A Job that goes on after a pause, or with limits that no clock can count to."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.batch import COMPLETION_INDEX, TRACKING_FINALIZER, Job
from muster.api.core import Pod
from muster.jobs.job.decide import decide

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def job(**spec):
    document = {
        "metadata": {"name": "j", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T11:59:00Z"},
        "spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "backoffLimit": 6} | spec,
        "status": {"startTime": "2026-01-01T11:59:00Z"},
    }
    return msgspec.convert(document, Job, strict=False)


def deleted_pod(index, *, tracked):
    """A pod on its way out; one that was let go before (the Job was suspended) has no finalizer of the Job's."""
    return msgspec.convert(
        {
            "metadata": {
                "name": f"j-{index}",
                "uid": str(index),
                "annotations": {COMPLETION_INDEX: str(index)},
                "deletionTimestamp": "2026-01-01T11:59:59Z",
                "finalizers": [TRACKING_FINALIZER] if tracked else [],
            },
            "status": {"phase": "Running"},
        },
        Pod,
        strict=False,
    )


@pytest.mark.parametrize(("tracked", "created"), [(False, 4), (True, 0)])
def test_pods_that_a_suspension_let_go_hold_nothing_back(tracked, created):
    plan = decide(job(), [deleted_pod(index, tracked=tracked) for index in range(4)], now=NOW)
    assert len(plan.create) == created


@pytest.mark.parametrize("seconds", [10**9, 10**11, 2**63 - 1])
def test_a_deadline_past_all_dates_is_none(seconds):
    plan = decide(job(activeDeadlineSeconds=seconds), [], now=NOW)
    assert len(plan.create) == 4
