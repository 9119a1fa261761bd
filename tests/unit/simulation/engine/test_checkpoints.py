import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.simulation.engine.checkpoints import Checkpoints, RemainingWork, measure_kept

SECONDS = st.floats(0.01, 1e7)


@pytest.mark.parametrize(
    ("every", "cost", "work", "span"),
    [
        (10, 0, 100, 100),
        (10, 1, 100, 109),  # none at the end
        (10, 1, 101, 111),
        (10, 1, 10, 10),
        (10, 1, 0, 0),
        (1000, 1, 100, 100),
        (0.1, 1, 0.3, 2.3),  # 0.1 goes into 0.3 a little less than three times
    ],
)
def test_a_checkpoint_follows_each_interval_but_the_last(every, cost, work, span):
    assert Checkpoints(every, cost).compute_span(work) == pytest.approx(span)


@pytest.mark.parametrize(
    ("ran", "kept"),
    [
        (0, RemainingWork(0, 0)),
        (10.9, RemainingWork(0, 10.9)),
        (11, RemainingWork(10, 0)),
        (16, RemainingWork(10, 5)),
        (109, RemainingWork(90, 10)),
    ],
)
def test_what_follows_the_last_checkpoint_is_lost(ran, kept):
    assert measure_kept(Checkpoints(10, 1), 100, ran) == kept


def test_without_checkpoints_all_is_lost():
    assert measure_kept(None, 100, 42.0) == RemainingWork(0.0, 42.0)


@given(SECONDS, st.floats(0, 1e5), SECONDS, st.floats(0, 1))
def test_no_interruption_loses_more_than_an_interval_and_no_work_is_invented(every, cost, work, share):
    checkpoints = Checkpoints(every, cost)
    whole = checkpoints.compute_span(work)
    ran = share * whole
    kept = checkpoints.measure_kept(work, ran)
    assert 0 <= kept.work <= min(work, ran) * (1 + 1e-6)
    assert 0 <= kept.lost <= (every + cost) * (1 + 1e-6) + 1e-6 * ran
    again = checkpoints.compute_span(work - kept.work)
    assert ran + again == pytest.approx(whole + kept.lost, rel=1e-6, abs=1e-6 * whole)
