"""One line for every step, whatever size the job has at the time."""

import pytest
from msgspec.structs import replace

from muster.cli.terminal.progress import Progress
from muster.insight.jobs.state import JobState
from muster.insight.jobs.tally import WorkerCounts
from muster.insight.jobs.trials import TrialCount
from muster.insight.quota.state import QuotaState


def sweep(done, failed, running):
    return JobState("Running", done, 40, count=TrialCount(done, failed, running, 40 - done - failed - running))


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
        (6, [running(6, 6), JobState("Completed", 4, 4)], ["j: all 6 workers started"]),
        (5, [running(1, 5), JobState("Finishing", 4, 5), JobState("Completed", 5, 5)], ["j: all 5 workers started"]),
        (5, [JobState("Completed", 2, 5)], []),
        (5, [running(4, 5), JobState("Failed", 4, 5)], []),
        (1, [JobState("Completed", 1, 1)], []),
        (1, [sweep(0, 0, 1), sweep(0, 0, 3)], ["j: 0 of 40 done, 1 running, 39 to go"]),
        (
            1,
            [replace(sweep(0, 0, 2), slowed="2 at a time")] * 2,
            ["j: 0 of 40 done, 2 running, 38 to go", "j: 2 at a time"],
        ),
        (
            1,
            [*(sweep(done, 1, 2) for done in range(9)), JobState("Failed", 39, 40, count=TrialCount(39, 1, 0, 0))],
            [
                "j: 0 of 40 done, 1 failed, 2 running, 37 to go",
                "j: 3 of 40 done, 1 failed, 2 running, 34 to go",
                "j: 7 of 40 done, 1 failed, 2 running, 30 to go",
                "j: 39 of 40 done, 1 failed",
            ],
        ),
    ],
)
def test_what_is_said(workers, states, said):
    lines: list[str] = []
    progress = Progress("j", workers, lines.append)
    for state in states:
        progress.report(state)
    assert lines == said


def test_how_far_workers_are_is_shown_while_some_of_several_run():
    shown: list[tuple[str, str]] = []
    progress = Progress("j", 1, lambda _line: None, lambda name, text: shown.append((name, text)))
    for counted in (
        WorkerCounts(2, 0, 0, 0),
        WorkerCounts(2, 1, 1, 0),
        WorkerCounts(2, 0, 0, 2),
        WorkerCounts(1, 1, 1, 0),
    ):
        progress.count(counted)
    assert shown == [("j", ""), ("j", "1 of 2 workers run"), ("j", ""), ("j", "")]
