"""The life of a job, told from decisions."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from muster.api.ours.decisions import Amount, Decision, Other, What
from muster.insight.history.life import Facts, Life, describe_life, make_life_document, render_life

START = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = Facts("ns", "j", "u", START, "ada", "team", START + timedelta(hours=1), "Failed: exit code 3")


def at(seconds, what, **about):
    return Decision(START + timedelta(seconds=seconds), what, "ns/j", **({"uid": "u"} | about))


def texts(*decisions, facts=FACTS):
    return [one.text for one in describe_life(facts, decisions)]


def only(decision):
    [text] = texts(decision, facts=Facts("ns", "j"))
    return text


CPU = Amount("spot", "cpu", 4_000, 8_000, 6_000, 2_000)


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (
            at(0, "Waiting", queue="q", rule="WaitingForQuota", because="no room", amounts=(CPU,)),
            "waits for quota of ClusterQueue q: no room (cpu of flavor spot: asks for 4, 2 available)",
        ),
        (at(0, "Waiting", rule="Misconfigured"), "waits for quota: Misconfigured"),
        (
            at(0, "QuotaReserved", queue="q", waited=185.5, amounts=(CPU,)),
            "got quota of ClusterQueue q after 3m5s: cpu 4 (spot)",
        ),
        (at(0, "QuotaReserved", queue="q", waited=0.2), "got quota of ClusterQueue q"),
        (at(0, "QuotaReserved", queue="q", rule="Growth"), "got quota for its growth of ClusterQueue q"),
        (
            at(0, "Preempting", rule="InClusterQueue", others=(Other("ns/a"), Other("lab/b"))),
            "takes the quota of a, lab/b",
        ),
        (
            at(0, "Preempting", rule="PodPriority", others=(Other("ns/a"),) * 7, others_in_all=40),
            "takes the nodes of a, a, a, a, a and 35 more",
        ),
        (
            at(0, "Preempted", rule="InCohortReclamation", priority=0, others=(Other("ns/b", priority=9),)),
            "preempted by b (priority 9; its own is 0): its ClusterQueue gives back quota that it borrowed",
        ),
        (
            at(0, "Preempted", rule="New", others=(Other("", priority=9),)),
            "preempted by a job of another namespace: New",
        ),
        (at(0, "Shrinking", others=(Other("ns/e"),)), "waits until elastic jobs have shrunk for it: e"),
        (
            at(0, "Evicted", rule="PodsReadyTimeout", because="too late"),
            "gave its quota back (PodsReadyTimeout): too late",
        ),
        (at(0, "Unplaced", rule="NoRoom", because="0/2 nodes"), "waits for nodes: 0/2 nodes"),
        (at(0, "Unplaced", rule="NodesKept", others=(Other("ns/h"),)), "waits for nodes: they are kept for h"),
        (at(0, "Placed", pods=3, nodes={"a": 2, "b": 1}, waited=61.0), "placed 3 pods after 61s on a (2), b (1)"),
        (at(0, "Placed", pods=1, rule="repair", nodes={"a": 1}), "placed 1 replacement pod on a"),
        (
            at(0, "Shrunk", pods=2, pods_before=4, rule="MakesRoom", others=(Other("ns/b"), Other(""))),
            "shrunk from 4 to 2 workers to make room for b, a job of another namespace",
        ),
        (
            at(0, "Shrunk", pods=2, pods_before=4, rule="Quota", because="quota for 2 is free"),
            "shrunk from 4 to 2 workers: quota for 2 is free",
        ),
        (at(0, "Grown", pods=6, pods_before=2, rule="Nodes"), "grown from 2 to 6 workers"),
        (at(0, "Nominated", clusters=("east", "west")), "offered to the clusters east, west"),
        (at(0, "Dispatched", clusters=("east",)), "sent to cluster east"),
        (at(0, "Recalled", rule="ClusterLost", clusters=("east",)), "taken back from cluster east, which is lost"),
        (at(0, "Interrupted", rule="NodeLost", because="it lost a node"), "interrupted (NodeLost): it lost a node"),
        (at(0, "GaveBack", rule="R", because="found no room"), "gave its nodes back (R): found no room"),
        (at(0, "Restarted", attempt=2, because="a Job failed"), "restarted (restart 2): a Job failed"),
    ],
)
def test_a_decision_is_a_sentence(decision, expected):
    assert only(decision) == expected


@pytest.mark.parametrize("what", get_args(What))
def test_every_decision_has_a_sentence_even_without_anything_else(what):
    assert only(at(0, what))


def test_a_life_begins_with_the_submission_and_ends_with_the_end():
    assert texts(at(1, "Placed", pods=1, nodes={"n": 1})) == [
        "submitted by ada to queue team",
        "placed 1 pod on n",
        "failed: exit code 3",
    ]


def test_another_job_of_the_name_has_another_life():
    assert texts(at(1, "Placed", uid="other", pods=1), at(2, "Placed", uid="", pods=2, nodes={"n": 2}))[1:-1] == [
        "placed 2 pods on n"
    ]


def test_pods_that_are_placed_one_by_one_are_told_together():
    one_by_one = [at(number / 10, "Placed", pods=1, nodes={f"n{number % 2}": 1}) for number in range(5)]
    later = at(60, "Placed", pods=1, nodes={"n0": 1})
    assert texts(*one_by_one, later)[1:-1] == ["placed 5 pods on n0 (3), n1 (2)", "placed 1 pod on n0"]


def test_a_reservation_that_is_decided_again_after_a_conflict_is_told_once():
    again = [at(number / 100, "QuotaReserved", queue="q", rule="Growth", pods=2) for number in range(4)]
    later = at(60, "QuotaReserved", queue="q", rule="Growth", pods=2)
    assert texts(*again, later)[1:-1] == ["got quota for its growth of ClusterQueue q"] * 2


def test_reservations_of_different_sizes_are_told_one_by_one():
    growths = [at(number / 100, "QuotaReserved", queue="q", rule="Growth", pods=number + 1) for number in range(2)]
    assert len(texts(*growths)[1:-1]) == 2


def test_lines_have_times_and_nothing_that_could_move_a_cursor():
    life = Life(FACTS, describe_life(FACTS, [at(0, "Unplaced", because="evil \x1b[2J\nsecond line")]))
    lines = render_life(life)
    assert lines[0] == "j (namespace ns)"
    assert lines[3] == f"{START.astimezone():%Y-%m-%d %H:%M:%S}  waits for nodes: evil \\x1b[2J\\nsecond line"
    assert all(line.isprintable() for line in lines)


def test_the_document_has_the_decisions_with_their_numbers():
    document = make_life_document(Life(FACTS, describe_life(FACTS, [at(5, "QuotaReserved", amounts=(CPU,))])))
    [submitted, reserved, ended] = document["moments"]
    assert (submitted["what"], submitted["decision"], ended["what"]) == ("Submitted", None, "Ended")
    assert reserved["decision"]["amounts"] == [
        {"flavor": "spot", "resource": "cpu", "asked": 4_000, "nominal": 8_000, "used": 6_000, "available": 2_000}
    ]
