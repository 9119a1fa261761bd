"""Expectations: what was asked for and not yet seen."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.expectations import EXPIRY_SECONDS, Expectations


def test_creations_are_counted_down() -> None:
    expected = Expectations()
    assert expected.satisfied("job", 0)
    expected.expect("job", 0, creations=3)
    for _ in range(3):
        assert not expected.satisfied("job", 1)
        expected.created("job")
    assert expected.satisfied("job", 1)
    expected.created("job")
    expected.expect("job", 2, creations=1)
    assert not expected.satisfied("job", 2), "a creation seen too many does not count for later"


def test_deletions_are_told_apart_by_uid() -> None:
    expected = Expectations()
    expected.expect("job", 0, deletions=["u1", "u2"])
    for uid in ("u1", "u1", "other"):
        expected.deleted("job", uid)
    assert not expected.satisfied("job", 0)
    expected.deleted("job", "u2")
    assert expected.satisfied("job", 0)


def test_expectations_add_up() -> None:
    expected = Expectations()
    expected.expect("job", 0, creations=1)
    expected.expect("job", 0, creations=1, deletions=["u"])
    expected.created("job", 2)
    assert not expected.satisfied("job", 0)
    expected.deleted("job", "u")
    assert expected.satisfied("job", 0)


def test_keys_are_apart() -> None:
    expected = Expectations()
    expected.expect("a", 0, creations=1)
    expected.created("b")
    assert expected.satisfied("b", 0)
    assert not expected.satisfied("a", 0)
    expected.forget("a")
    assert expected.satisfied("a", 0)
    expected.forget("a")


def test_five_minutes_are_enough() -> None:
    expected = Expectations()
    expected.expect("job", 100, creations=2)
    assert not expected.satisfied("job", 100 + EXPIRY_SECONDS)
    assert expected.expires_in("job", 150) == EXPIRY_SECONDS - 50
    assert expected.satisfied("job", 100.001 + EXPIRY_SECONDS)
    assert expected.expires_in("job", 100.001 + EXPIRY_SECONDS) is None
    expected.expect("job", 1000, creations=1)
    expected.created("job")
    assert expected.satisfied("job", 1000), "what was given up is not expected again"


@pytest.mark.parametrize("event", ["created", "deleted"])
def test_events_about_unheard_of_keys_are_ignored(event: str) -> None:
    expected = Expectations()
    expected.created("x") if event == "created" else expected.deleted("x", "u")
    assert expected.satisfied("x", 0)


_STEPS = st.lists(st.sampled_from(["make", "saw", "delete-u", "delete-v", "gone-u", "gone-v"]), max_size=30)


@given(_STEPS)
def test_satisfied_means_nothing_outstanding(steps: list[str]) -> None:
    expected = Expectations()
    creations, deletions = 0, Counter[str]()
    for step in steps:
        verb, _, uid = step.partition("-")
        if verb == "make":
            creations += 1
            expected.expect("k", 0, creations=1)
        elif verb == "saw":
            creations = max(creations - 1, 0)
            expected.created("k")
        elif verb == "delete":
            deletions[uid] = 1
            expected.expect("k", 0, deletions=[uid])
        else:
            deletions[uid] = 0
            expected.deleted("k", uid)
        assert expected.satisfied("k", 0) == (creations == 0 and not deletions.total())
