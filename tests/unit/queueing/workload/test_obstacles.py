import pytest

from muster.queueing.workload.obstacles import QueueState, find_drain


@pytest.mark.parametrize(
    ("local", "queue", "reason"),
    [
        ("None", "None", None),
        ("Hold", "Hold", None),
        (None, None, None),
        ("HoldAndDrain", "None", "LocalQueueStopped"),
        ("HoldAndDrain", "HoldAndDrain", "LocalQueueStopped"),
        ("Hold", "HoldAndDrain", "ClusterQueueStopped"),
    ],
)
def test_only_a_queue_that_drains_evicts_what_runs(local, queue, reason):
    drain = find_drain(QueueState("l", local), QueueState("q", queue))
    assert (drain.reason if drain is not None else None) == reason
