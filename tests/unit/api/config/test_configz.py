"""What a server tells of its Configuration is read back as it is."""

import msgspec
import pytest

from muster.api.config import EMBEDDED, Muster, Scheduling
from muster.api.config.configz import configz, scheduling_of
from muster.api.durations import MINUTE


@pytest.mark.parametrize(
    ("scheduling", "document"),
    [
        (Scheduling(), {}),
        (Scheduling(scoring_strategy="LeastAllocated"), {"scoringStrategy": "LeastAllocated"}),
        (Scheduling(minimum_run_time=MINUTE, overtakings=2), {"minimumRunTime": "1m0s", "overtakings": 2}),
    ],
)
def test_scheduling(scheduling, document):
    served = configz(msgspec.structs.replace(EMBEDDED, muster=Muster(scheduling=scheduling)))
    assert served == {"muster.scheduling": document}
    assert scheduling_of(msgspec.json.decode(msgspec.json.encode(served))) == scheduling


def test_another_server_says_something_else():
    assert scheduling_of({"kubelet": {}}) == Scheduling()
