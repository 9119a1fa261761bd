"""Who has to go when one more comes."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.front.crowd import LEAVING_AT_ONCE, MANY, PATIENCE_SECONDS, Crowd, Guest, leaving

BUSY = None


def guests(*given):
    """From pairs of an owner and since when it is idle."""
    return [Guest(lambda: None, idle, owner) for owner, idle in given]


@pytest.mark.parametrize(
    ("there", "gone"),
    [
        ([("a", 3), ("a", 1), ("a", 2)], [1]),
        # Of who has the most, even if another's was idle for longer, and whether that one knows who it is or not.
        ([("a", 1), ("b", 2), ("b", 3)], [1]),
        ([("a", 1), ("", 2), ("", 3)], [1]),
        # Never one with a request, as long as anybody is idle.
        ([("a", BUSY), ("a", BUSY), ("a", BUSY), ("b", 5)], [3]),
        # Then the newest one of who has the most.
        ([("a", BUSY), ("a", BUSY), ("b", BUSY)], [1]),
        # Among many who have little, nobody.
        ([(f"u{n}", BUSY) for n in range(8)], []),
    ],
)
def test_who_has_to_go(there, gone):
    all_ = guests(*there)
    assert [all_.index(guest) for guest in leaving(all_, 1)] == gone


def test_some_go_at_once_because_looking_for_them_costs():
    all_ = guests(*[("a", n) for n in range(10)])
    assert [guest.idle_since for guest in leaving(all_, 3)] == [0, 1, 2]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 5), st.floats(0, 1)), max_size=60))
def test_there_are_never_too_many(comers):
    crowd = Crowd(20)
    gone: list[int] = []
    now, full_since = 10.0, None
    for number, (owner, idle, seconds) in enumerate(comers):
        now += seconds
        before = len(crowd)
        full_since = None if before < 20 else now if full_since is None else full_since
        if not crowd.make_room(now):
            assert full_since is not None
            assert now - full_since < PATIENCE_SECONDS
            continue  # two who share all have more than an eighth each
        crowd.enter(Guest(partial(gone.append, number), idle, owner))
        assert len(crowd) <= 20
        assert before < 20 or gone
        assert before - len(crowd) < LEAVING_AT_ONCE
    assert len(gone) == len(set(gone))


def test_in_a_throng_nobody_has_to_go_before_its_time():
    crowd = Crowd(2)
    gone: list[str] = []

    def come(name, idle_since):
        crowd.enter(Guest(partial(gone.append, name), idle_since))

    come("busy", BUSY)
    come("new", 9.5)
    assert not crowd.make_room(10.0)
    assert not crowd.make_room(10.4)
    assert crowd.make_room(10.5)  # by now it was idle for a second
    assert gone == ["new"]
    come("busy too", BUSY)
    assert not crowd.make_room(10.9)
    assert crowd.make_room(11.0)  # there was no room for a second
    assert gone == ["new", "busy too"]
    assert crowd.make_room(11.1)
    come("busy as well", BUSY)
    assert not crowd.make_room(12.0)  # there was room in between


def test_memory_is_given_back_once_when_most_of_many_have_gone():
    relieved: list[int] = []
    crowd = Crowd(2 * MANY, lambda: relieved.append(len(crowd)))
    for count, times in ((MANY - 1, 0), (MANY, 1), (1, 1), (MANY, 2)):
        there = guests(*[("a", 0)] * count)
        for guest in there:
            crowd.enter(guest)
        for guest in there:
            crowd.left(guest)
        assert relieved == [MANY // 4] * times
