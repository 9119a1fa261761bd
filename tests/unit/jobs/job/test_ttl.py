from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.jobs.world import START, job_of

from muster.jobs.job.ttl import find_expiry

ENDED = {"type": "Failed", "status": "True", "lastTransitionTime": START.isoformat()}


@pytest.mark.parametrize(
    ("ttl", "status", "meta", "expected"),
    [
        (10, {"conditions": [ENDED]}, {}, START + timedelta(seconds=10)),
        (0, {"conditions": [ENDED]}, {}, START),
        (10, {"conditions": [ENDED | {"type": "Complete"}]}, {}, START + timedelta(seconds=10)),
        (10, {"conditions": [ENDED | {"status": "False"}]}, {}, None),
        (10, {"conditions": [ENDED | {"type": "FailureTarget"}]}, {}, None),
        (10, {}, {}, None),
        (None, {"conditions": [ENDED]}, {}, None),
        (10, {"conditions": [ENDED]}, {"deletion_timestamp": START}, None),
        (10, {"conditions": [{"type": "Complete", "status": "True"}]}, {}, None),
        (
            10,
            {"conditions": [ENDED | {"type": "Complete"}], "completionTime": "2027-01-01T00:00:00Z"},
            {},
            START + timedelta(seconds=10),
        ),
        (
            10,
            {"conditions": [{"type": "Complete", "status": "True"}], "completionTime": START.isoformat()},
            {},
            START + timedelta(seconds=10),
        ),
    ],
)
def test_expiry(ttl: int | None, status: dict[str, Any], meta: dict[str, Any], expected: datetime | None) -> None:
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    assert find_expiry(job_of(spec, status, **meta)) == expected
