"""What is remembered of objects that stay the same."""

from msgspec import Struct

from muster.insight.reader.listing.memo import Memo


class Thing(Struct):
    value: int


class Counter:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.calls


def test_a_result_is_made_once_for_the_same_objects():
    memo, make, thing = Memo(), Counter(), Thing(1)
    assert [memo.recall("t", "k", (thing, 3, "a", None), make) for _ in range(3)] == [1, 1, 1]


def test_another_object_makes_it_again_even_if_it_is_equal():
    memo, make = Memo(), Counter()
    assert memo.recall("t", "k", (Thing(1),), make) == 1
    assert memo.recall("t", "k", (Thing(1),), make) == 2


def test_plain_values_are_compared_and_so_is_how_many_inputs_there_are():
    memo, make = Memo(), Counter()
    assert memo.recall("t", "k", (10**20,), make) == memo.recall("t", "k", (10**20,), make) == 1
    assert memo.recall("t", "k", (10**20, 1), make) == 2
    assert memo.recall("t", "k", (10**20, 2), make) == 3


def test_topics_and_keys_are_apart():
    memo, make = Memo(), Counter()
    assert [memo.recall(topic, key, (), make) for topic in "ab" for key in "xy"] == [1, 2, 3, 4]


def test_what_is_gone_is_forgotten():
    memo, make = Memo(), Counter()
    for key in "xyz":
        memo.recall("t", key, (), make)
    memo.retain("t", {"y"})
    assert memo.find("t", "y", ()) == 2
    assert memo.find("t", "x", ()) is None
