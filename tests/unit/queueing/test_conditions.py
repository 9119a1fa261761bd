"""Tests of conditions: one changes, the others stay, and the time of a transition is that of a flip."""

from datetime import timedelta

import msgspec
import pytest
from tests.unit.queueing.lives import NOW, condition

from muster.api.conditions import find, find_true, is_true
from muster.queueing.conditions import drop, find_last_change, put, reset, stamp_generation

LATER = NOW + timedelta(seconds=60, microseconds=5)
BOTH = (condition("A", "True Yes: a"), condition("B", "False No: b"))


@pytest.mark.parametrize(
    ("value", "reason", "message", "moment"),
    [
        pytest.param(True, "Yes", "other", NOW, id="another message"),
        pytest.param(True, "Other", "a", NOW, id="another reason"),
        pytest.param(False, "Yes", "a", NOW + timedelta(seconds=60), id="a flip"),
    ],
)
def test_a_transition_is_a_flip(value: bool, reason: str, message: str, moment: object) -> None:
    changed = put(BOTH, "A", value, reason, message, LATER)
    result = find(changed, "A")
    assert (result.reason, result.message, result.last_transition_time) == (reason, message, moment)
    assert is_true(changed, "A") == value
    assert changed[1] is BOTH[1]


def test_what_is_so_already_is_not_changed() -> None:
    assert put(BOTH, "A", True, "Yes", "a", LATER) is BOTH
    assert put(put(BOTH, "C", True, "R", "m", NOW), "C", True, "R", "m", LATER)[2].last_transition_time == NOW


def test_a_condition_without_a_time_gets_one_without_a_fraction() -> None:
    timeless = (msgspec.structs.replace(BOTH[0], last_transition_time=None),)
    assert put(timeless, "A", True, "Other", "a", LATER)[0].last_transition_time == NOW + timedelta(seconds=60)
    assert find_last_change(timeless[0], LATER) == LATER
    assert find_last_change(None, LATER) == LATER
    assert find_last_change(BOTH[0], LATER) == NOW


def test_pitfall_53_a_message_that_is_too_long_is_cut_and_then_stays() -> None:
    longest = "m" * 32768  # that the API takes
    (whole,) = put((), "A", True, "R", longest, NOW)
    assert whole.message == longest
    cut = put((), "A", True, "R", longest + "m", NOW)
    assert len(cut[0].message) == len(longest)
    assert cut[0].message.endswith("m ...")
    assert put(cut, "A", True, "R", longest + "m", LATER) is cut


def test_what_was_true_is_reset_and_says_what_it_was() -> None:
    result = find(reset(BOTH, "A", "QuotaReserved", LATER), "A")
    assert (result.status, result.reason, result.message) == ("False", "QuotaReserved", "Previously: a")
    assert reset(BOTH, "B", "QuotaReserved", LATER) is BOTH
    assert reset(BOTH, "C", "QuotaReserved", LATER) is BOTH


def test_finding_and_dropping() -> None:
    assert find(BOTH, "B") is BOTH[1]
    assert find_true(BOTH, "B") is None
    assert find_true(BOTH, "A") is BOTH[0]
    assert drop(BOTH, "A") == (BOTH[1],)
    assert drop(BOTH, "C") == BOTH


def test_only_what_is_new_is_stamped_with_the_generation() -> None:
    after = put(put(BOTH, "A", False, "No", "a", LATER), "C", True, "R", "m", LATER)
    assert [one.observed_generation for one in stamp_generation(BOTH, after, 3)] == [3, 0, 3]
