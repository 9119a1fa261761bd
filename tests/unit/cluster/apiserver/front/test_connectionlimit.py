"""Who has to go when one more comes."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.front.connectionlimit import (
    LEAVING_AT_ONCE,
    MANY,
    PATIENCE_SECONDS,
    ConnectionLimit,
    ConnectionSlot,
    choose_evicted,
)

BUSY = None


def slots(*given):
    """From pairs of an owner and since when it is idle."""
    return [ConnectionSlot(lambda: None, idle, owner) for owner, idle in given]


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
    all_ = slots(*there)
    assert [all_.index(slot) for slot in choose_evicted(all_, 1)] == gone


def test_some_go_at_once_because_looking_for_them_costs():
    all_ = slots(*[("a", n) for n in range(10)])
    assert [slot.idle_since for slot in choose_evicted(all_, 3)] == [0, 1, 2]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 5), st.floats(0, 1)), max_size=60))
def test_there_are_never_too_many(comers):
    connection_limit = ConnectionLimit(20)
    gone: list[int] = []
    now, full_since = 10.0, None
    for number, (owner, idle, seconds) in enumerate(comers):
        now += seconds
        before = len(connection_limit)
        full_since = None if before < 20 else now if full_since is None else full_since
        if not connection_limit.make_room(now):
            assert full_since is not None
            assert now - full_since < PATIENCE_SECONDS
            continue  # two who share all have more than an eighth each
        connection_limit.enter(ConnectionSlot(partial(gone.append, number), idle, owner))
        assert len(connection_limit) <= 20
        assert before < 20 or gone
        assert before - len(connection_limit) < LEAVING_AT_ONCE
    assert len(gone) == len(set(gone))


def test_in_a_throng_nobody_has_to_go_before_its_time():
    connection_limit = ConnectionLimit(2)
    gone: list[str] = []

    def come(name, idle_since):
        connection_limit.enter(ConnectionSlot(partial(gone.append, name), idle_since))

    come("busy", BUSY)
    come("new", 9.5)
    assert not connection_limit.make_room(10.0)
    assert not connection_limit.make_room(10.4)
    assert connection_limit.make_room(10.5)  # by now it was idle for a second
    assert gone == ["new"]
    come("busy too", BUSY)
    assert not connection_limit.make_room(10.9)
    assert connection_limit.make_room(11.0)  # there was no room for a second
    assert gone == ["new", "busy too"]
    assert connection_limit.make_room(11.1)
    come("busy as well", BUSY)
    assert not connection_limit.make_room(12.0)  # there was room in between


def test_memory_is_given_back_once_when_most_of_many_have_gone():
    relieved: list[int] = []
    connection_limit = ConnectionLimit(2 * MANY, lambda: relieved.append(len(connection_limit)))
    for count, times in ((MANY - 1, 0), (MANY, 1), (1, 1), (MANY, 2)):
        there = slots(*[("a", 0)] * count)
        for slot in there:
            connection_limit.enter(slot)
        for slot in there:
            connection_limit.release(slot)
        assert relieved == [MANY // 4] * times
