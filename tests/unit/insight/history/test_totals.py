"""What ran, added up."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.insight.history.runs import PodRequests, Run
from muster.insight.history.totals import add_up, find_hours

START = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


def run(name, *, owner="ada", queue="vision", state="Completed", hours=1.0, waited=60, requests=(), days=0):
    submitted = START + timedelta(days=days)
    started = submitted + timedelta(seconds=waited)
    ended = started + timedelta(hours=hours)
    return Run(
        name, "default", name, "Job", state, submitted, ended, started, owner, queue, pod_requests=tuple(requests)
    )  # fmt: skip


GPUS = (PodRequests(2, {"nvidia.com/gpu": "4", "cpu": "500m"}), PodRequests(1, {"cpu": "2"}))


def test_hours_are_of_what_all_pods_requested_while_they_ran():
    assert find_hours(run("a", hours=0.5, requests=GPUS), gpus=True) == 4.0
    assert find_hours(run("a", hours=0.5, requests=GPUS), gpus=False) == 1.5
    assert find_hours(run("a"), gpus=True) == 0


def test_a_run_that_never_started_used_nothing():
    never = Run("u", "default", "n", "Job", "Cancelled", START, START + timedelta(hours=9), pod_requests=GPUS)
    assert find_hours(never, gpus=True) == 0


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("user", ["bob", "ada"]),
        ("queue", ["default/speech", "default/vision"]),
        ("day", ["2026-01-03", "2026-01-02"]),
        ("state", ["Completed", "Failed"]),
    ],
)
def test_runs_are_added_up_by_what_they_have_in_common(by, names):
    runs = [
        run("a"),
        run("b", state="Failed"),
        run("c", owner="bob", queue="speech", requests=GPUS, days=1),
    ]
    assert [total.name for total in add_up(runs, by)] == names


def test_a_total_counts_ends_waits_and_hours():
    runs = [run("a", waited=10), run("b", state="Failed", waited=30), run("c", waited=500, requests=GPUS)]
    (total,) = add_up(runs, "user")
    assert (total.runs, total.completed, total.failed, total.others, total.waited) == (3, 2, 1, 0, 30)
    assert (total.gpu_hours, total.cpu_hours, total.known) == (8.0, 3.0, 1)
    (total,) = add_up([run("a", state="Cancelled"), run("b", state="Deleted"), run("c")], "user")
    assert total.others == 2
    assert add_up([], "user") == []
