"""Tests of which pod goes to which domain."""

import pytest

from muster.queueing.topology.ungating import Member, domains_of_waiting, rank_of

LEVELS = ("block", "rack")
DOMAINS = ((("b1", "r1"), 2), (("b1", "r2"), 1))
FIRST, SECOND = {"block": "b1", "rack": "r1"}, {"block": "b1", "rack": "r2"}


def waiting(uid, rank=None):
    return Member(uid, True, {}, rank)


def there(uid, selector, rank=None):
    return Member(uid, False, {"zone": "z"} | selector, rank)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param(
            [waiting("c", 2), waiting("a", 0), waiting("b", 1)],
            {"a": FIRST, "b": FIRST, "c": SECOND},
            id="by rank, in whatever order they come",
        ),
        pytest.param([waiting("c", 2)], {"c": SECOND}, id="by rank, before the others are there"),
        pytest.param(
            [there("a", FIRST, 0), waiting("c", 2)], {"c": SECOND}, id="by rank, beside those that follow theirs"
        ),
        pytest.param(
            [there("a", SECOND, 0), waiting("b", 1), waiting("c", 2)],
            {"b": FIRST, "c": FIRST},
            id="a pod is elsewhere than its rank says: what is free",
        ),
        pytest.param([waiting("a", 3), waiting("b", 1)], {"a": FIRST, "b": FIRST}, id="a rank that there is not"),
        pytest.param(
            [waiting("a"), waiting("b"), waiting("c"), waiting("d")],
            {"a": FIRST, "b": FIRST, "c": SECOND},
            id="without ranks, one after the other; who is too many waits on",
        ),
        pytest.param([there("a", FIRST), waiting("b"), waiting("c")], {"b": FIRST, "c": SECOND}, id="what is free"),
        pytest.param([there("a", FIRST, 0)], {}, id="no pod waits"),
        pytest.param([], {}, id="no pods"),
    ],
)
def test_pods_get_their_domains(members, expected):
    assert domains_of_waiting(LEVELS, DOMAINS, members) == expected


@pytest.mark.parametrize(
    ("labels", "group", "groups", "expected"),
    [
        pytest.param({"index": "3"}, None, None, 3, id="an index"),
        pytest.param({}, None, None, None, id="none"),
        pytest.param({"index": "x"}, None, None, None, id="no number"),
        pytest.param({"index": "-1"}, None, None, None, id="below zero"),
        pytest.param({"index": "123456789"}, None, None, 123456789, id="nine digits"),
        pytest.param({"index": "1234567890"}, None, None, None, id="more digits than an index has"),
        pytest.param({"index": "1", "job": "2"}, "job", 4, 5, id="of the third of four groups of two"),
        pytest.param({"index": "2", "job": "2"}, "job", 4, None, id="more than the group has"),
        pytest.param({"index": "1"}, "job", 4, None, id="no group"),
    ],
)
def test_the_rank_of_a_pod(labels, group, groups, expected):
    assert rank_of(labels, "index", group, groups, 8) == expected
