"""Tests of the decayed usage of LocalQueues."""

from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.queueing.pending.usage import Accounts, Decay, RecentUsage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LQ, W = "team/queue", "team/work"


@pytest.mark.parametrize(
    ("half_life", "elapsed", "kept"),
    [
        pytest.param(HOUR, timedelta(), 1.0, id="no time"),
        pytest.param(HOUR, HOUR, 0.5, id="one half-life"),
        pytest.param(HOUR, 2 * HOUR, 0.25, id="two half-lives"),
        pytest.param(timedelta(), HOUR, 1.0, id="no half-life: nothing changes"),
        pytest.param(HOUR, -HOUR, 1.0, id="the clock went back"),
    ],
)
def test_kept(half_life: timedelta, elapsed: timedelta, kept: float):
    assert Decay(half_life).decay_factor(elapsed) == kept


def test_usage_decays_towards_what_is_in_use():
    decay = Decay(HOUR)
    assert decay.decay_usage({"cpu": 8000, "gpu": 2}, {"cpu": 4000}, HOUR) == {"cpu": 6000, "gpu": 1}
    assert decay.decay_usage({}, {"cpu": 4000}, HOUR) == {"cpu": 2000}
    assert Decay(timedelta()).decay_usage({"cpu": 8000}, {"cpu": 4000}, HOUR) == {"cpu": 8000}


def test_penalty_is_one_sampling_interval():
    assert Decay(HOUR, sampling=HOUR).penalty({"cpu": 4000}) == {"cpu": 2000}


@pytest.mark.parametrize(
    ("consumed", "weight", "weights", "score"),
    [
        pytest.param({}, 1.0, {}, 0.0, id="nothing"),
        pytest.param({"cpu": 2500}, 1.0, {}, 2.5, id="CPUs are whole"),
        pytest.param({"cpu": 2000, "memory": 10}, 1.0, {}, 12.0, id="resources add up"),
        pytest.param({"cpu": 2000, "memory": 10}, 1.0, {"memory": 0, "cpu": 3}, 6.0, id="by their weights"),
        pytest.param({"cpu": 2000}, 2.0, {}, 1.0, id="by the weight of the queue"),
        pytest.param({"cpu": 2000}, 0.0, {}, inf, id="no weight"),
        pytest.param({}, 0.0, {}, inf, id="no weight and no usage is last, not first"),
        pytest.param({}, -1.0, {}, inf, id="a negative weight"),
    ],
)
def test_score(consumed: dict[str, float], weight: float, weights: dict[str, float], score: float):
    assert Decay(HOUR, weights=weights).score(consumed, weight) == score


def _accounts() -> Accounts:
    return Accounts(Decay(HOUR, sampling=HOUR))


def test_unknown_is_nothing():
    accounts = _accounts()
    assert accounts.get(LQ) is None
    assert accounts.score(LQ, 1.0) == 0.0
    accounts.refund(LQ, W)
    accounts.settle(LQ, W, {"cpu": 1}, NOW)
    accounts.forget(LQ)
    assert accounts.get(LQ) is None


def test_a_penalty_counts_until_it_is_refunded():
    accounts = _accounts()
    accounts.charge(LQ, W, {"cpu": 4000}, NOW)
    assert accounts.score(LQ, 1.0) == 2.0
    accounts.refund(LQ, W)
    assert accounts.score(LQ, 1.0) == 0.0


def test_the_same_workload_is_charged_once():
    accounts = _accounts()
    accounts.charge(LQ, W, {"cpu": 4000}, NOW)
    accounts.charge(LQ, W, {"cpu": 2000}, NOW + HOUR)
    accounts.charge(LQ, "team/other", {"cpu": 2000}, NOW + HOUR)
    assert accounts.get(LQ).penalty == {"cpu": 2000}
    assert accounts.get(LQ).updated == NOW


def test_a_settled_penalty_is_consumed_once():
    accounts = _accounts()
    accounts.restore(LQ, {"cpu": 8000}, NOW)
    accounts.charge(LQ, W, {"cpu": 4000}, NOW)
    accounts.charge(LQ, "team/other", {"cpu": 2000}, NOW)
    accounts.settle(LQ, W, {"cpu": 4000}, NOW + HOUR)
    settled = RecentUsage(NOW + HOUR, {"cpu": 8000}, {"team/other": {"cpu": 1000}})
    assert accounts.get(LQ) == settled
    accounts.settle(LQ, W, {"cpu": 4000}, NOW + HOUR)
    accounts.refund(LQ, W)
    assert accounts.get(LQ) == settled


def test_samples_leave_penalties_and_a_clock_that_goes_back_changes_nothing():
    accounts = _accounts()
    accounts.charge(LQ, W, {"cpu": 4000}, NOW)
    account = accounts.sample(LQ, {"cpu": 4000}, NOW + HOUR)
    assert (account.consumed, account.penalty, account.updated) == ({"cpu": 2000}, {"cpu": 2000}, NOW + HOUR)
    assert accounts.sample(LQ, {"cpu": 9999}, NOW) == account


def test_status_restores_what_was_consumed():
    accounts = _accounts()
    accounts.restore(LQ, {"cpu": 6000}, NOW)
    assert accounts.score(LQ, 2.0) == 3.0
    assert accounts.sample(LQ, {}, NOW + HOUR).consumed == {"cpu": 3000}
    accounts.forget(LQ)
    assert accounts.score(LQ, 2.0) == 0.0


@pytest.mark.parametrize(
    ("account", "faded"),
    [
        pytest.param(RecentUsage(NOW), True, id="nothing ever"),
        pytest.param(RecentUsage(NOW, {"cpu": 0.4, "memory": 0.0}), True, id="less than a unit"),
        pytest.param(RecentUsage(NOW, {"cpu": 0.4, "memory": 1.0}), False, id="a unit of something"),
        pytest.param(RecentUsage(NOW, {}, {W: {"cpu": 0.1}}), False, id="something is owed"),
    ],
)
def test_faded(account: RecentUsage, faded: bool):
    assert account.has_faded == faded


amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.floats(0, 1e12))


@given(amounts, amounts, st.integers(0, 10**6), st.integers(0, 10**6))
def test_two_samples_are_as_good_as_one(old: dict[str, float], current: dict[str, float], first: int, second: int):
    decay = Decay(HOUR)
    one, other = timedelta(seconds=first), timedelta(seconds=second)
    twice = decay.decay_usage(decay.decay_usage(old, current, one), current, other)
    assert twice == pytest.approx(decay.decay_usage(old, current, one + other))


@given(amounts, amounts, st.integers(0, 10**6))
def test_usage_stays_between_the_past_and_the_present(old: dict[str, float], current: dict[str, float], seconds: int):
    for resource, value in Decay(HOUR).decay_usage(old, current, timedelta(seconds=seconds)).items():
        past, present = old.get(resource, 0.0), current.get(resource, 0.0)
        assert min(past, present) * 0.999999 <= value <= max(past, present) * 1.000001
