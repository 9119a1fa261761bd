"""When a finished JobSet is deleted."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.jobs.jobset.world import START

from muster.api.jobset import JobSet
from muster.jobs.jobset.ttl import find_expiry

ENDED = {"type": "Completed", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": START.isoformat()}
TIMELESS = {key: value for key, value in ENDED.items() if key != "lastTransitionTime"}


@pytest.mark.parametrize(
    ("ttl", "condition", "deleted", "expected"),
    [
        pytest.param(10, ENDED, False, START + timedelta(seconds=10), id="so long after its end"),
        pytest.param(0, ENDED, False, START, id="at once"),
        pytest.param(10, ENDED | {"type": "Failed"}, False, START + timedelta(seconds=10), id="after a failure, too"),
        pytest.param(10, ENDED | {"status": "False"}, False, None, id="it has not ended"),
        pytest.param(10, TIMELESS, False, None, id="nobody says when it ended"),
        pytest.param(None, ENDED, False, None, id="it stays"),
        pytest.param(10, ENDED, True, None, id="it is being deleted"),
    ],
)
def test_expiry(ttl: int | None, condition: dict[str, Any], deleted: bool, expected: datetime | None) -> None:
    meta = {"name": "js"} | ({"deletionTimestamp": START} if deleted else {})
    spec: dict[str, Any] = {"ttlSecondsAfterFinished": ttl, "replicatedJobs": []}
    jobset = msgspec.convert({"metadata": meta, "spec": spec, "status": {"conditions": [condition]}}, JobSet)
    assert find_expiry(jobset) == expected
