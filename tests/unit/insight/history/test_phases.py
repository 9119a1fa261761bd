"""The phases of a life."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.ours.decisions import Decision
from muster.insight.history.life import Facts, Life, describe_life
from muster.insight.history.phases import list_phases

START = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds):
    return START + timedelta(seconds=seconds)


def phases(*decisions, started=None, ended=None, queue="q"):
    began, ended = (after(at) if at is not None else None for at in (started, ended))
    facts = Facts("ns", "j", "u", START, queue=queue, ended=ended, end="Failed", started=began)
    told = [Decision(after(at), what, "ns/j", uid="u", rule=rule) for at, what, rule in decisions]
    listed = list_phases(Life(facts, describe_life(facts, told)))
    return [
        (one.name, (one.start - START).seconds, None if one.end is None else (one.end - START).seconds)
        for one in listed
    ]


ADMITTED = ((10, "QuotaReserved", ""), (20, "Placed", ""))


@pytest.mark.parametrize(
    ("decisions", "started", "ended", "expected"),
    [
        ((), None, None, [("quota", 0, None)]),
        (((5, "Waiting", "x"),), None, 9, [("quota", 0, 9)]),
        (ADMITTED, None, None, [("quota", 0, 10), ("nodes", 10, 20), ("starting", 20, None)]),
        (ADMITTED, 30, 40, [("quota", 0, 10), ("nodes", 10, 20), ("starting", 20, 30), ("running", 30, 40)]),
        (
            (*ADMITTED, (50, "Preempted", "InCohort"), (60, "Evicted", "Preempted")),
            None,
            None,
            [("quota", 0, 10), ("nodes", 10, 20), ("running", 20, 50), ("stopping", 50, 60), ("quota", 60, None)],
        ),
        (
            (*ADMITTED, (40, "QuotaReserved", "Growth"), (41, "Unplaced", "NoRoom"), (42, "Placed", "growth")),
            30,
            None,
            [("quota", 0, 10), ("nodes", 10, 20), ("starting", 20, 30), ("running", 30, None)],
        ),
        (
            ((10, "QuotaReserved", ""), (12, "Dispatched", ""), (40, "Recalled", ""), (50, "Dispatched", "")),
            None,
            60,
            [("quota", 0, 10), ("nodes", 10, 12), ("elsewhere", 12, 40), ("quota", 40, 50), ("elsewhere", 50, 60)],
        ),
    ],
    ids=[
        "submitted",
        "waits until its end",
        "placed",
        "a whole life",
        "preempted",
        "grows while it runs",
        "in other clusters",
    ],
)
def test_phases_follow_the_decisions(decisions, started, ended, expected):
    assert phases(*decisions, started=started, ended=ended) == expected


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        ((), [("nodes", 0, None)]),
        (((5, "Placed", ""),), [("nodes", 0, 5), ("starting", 5, None)]),
        (ADMITTED, [("quota", 0, 10), ("nodes", 10, 20), ("starting", 20, None)]),
    ],
    ids=["waits", "placed", "its queue is not known, for it is gone"],
)
def test_a_job_in_no_queue_waits_for_no_quota(decisions, expected):
    assert phases(*decisions, queue="") == expected


def test_a_start_in_the_second_of_a_decision_follows_it():
    told = [Decision(START + timedelta(seconds=20.7), "Placed", "ns/j", uid="u")]
    facts = Facts("ns", "j", "u", START, started=after(20))
    assert [one.what for one in describe_life(facts, told)] == ["Submitted", "Placed", "Started"]


def test_no_phase_ends_before_it_begins():
    told = [Decision(START + timedelta(seconds=20.7), "Placed", "ns/j", uid="u")]
    facts = Facts("ns", "j", "u", START, started=after(20))
    assert all(one.end is None or one.end >= one.start for one in list_phases(Life(facts, describe_life(facts, told))))
