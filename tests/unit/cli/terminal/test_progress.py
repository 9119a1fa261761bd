"""One line for every step, whatever size the job has at the time."""

import pytest

from muster.cli.terminal.progress import Progress
from muster.insight.jobstate import JobState
from muster.insight.quotastate import QuotaState


def queued(position, reason="no room"):
    quota_state = QuotaState("Queued", reason, queue="q", position=position)
    return JobState("Queued", 0, 2, reason, blocked=bool(reason), quota_state=quota_state)


def running(ready, wanted):
    return JobState("Running", ready, wanted)


@pytest.mark.parametrize(
    ("workers", "states", "said"),
    [
        (1, [JobState("Pending", 0, 1), running(0, 1), running(1, 1)], ["j: running"]),
        (4, [running(1, 4), running(4, 4), running(4, 4)], ["j: all 4 workers started"]),
        (1, [JobState("Retrying", 0, 1, "1 pod failed: boom")] * 2, ["j: retrying: 1 pod failed: boom"]),
        (4, [JobState("Pending", 0, 4, "no room", blocked=True)] * 2, ["j: pending: no room"]),
        (
            6,
            [running(4, 4), running(4, 2), running(2, 2), running(2, 6), running(6, 6), running(6, 4)],
            ["j: all 4 workers started", "j: now 2 workers", "j: now 6 workers", "j: now 4 workers"],
        ),
        (2, [queued(2, ""), running(2, 2)], ["j: all 2 workers started"]),
        (
            2,
            [queued(2), queued(2), queued(1), running(2, 2), queued(1), running(1, 2), running(2, 2)],
            [
                "j: waiting in queue q, position 2: no room",
                "j: waiting in queue q, position 1: no room",
                "j: all 2 workers started",
                "j: waiting in queue q, position 1: no room",
                "j: all 2 workers started",
            ],
        ),
        (
            1,
            [queued(1), running(1, 1), queued(1), running(1, 1)],
            ["j: waiting in queue q, position 1: no room", "j: running"] * 2,
        ),
        (6, [running(4, 4), JobState("Completed", 4, 4)], ["j: all 4 workers started"]),
    ],
)
def test_what_is_said(workers, states, said):
    lines: list[str] = []
    progress = Progress("j", workers, lines.append)
    for state in states:
        progress.report(state)
    assert lines == said
