"""When enough pods are enough: row 3.16 of KEP-34's checklist, and pitfall 14."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.jobs.podgroup.readiness import PodCounts, still_needed


@pytest.mark.parametrize(
    ("minimum", "allocated", "pending", "succeeded", "needed"),
    [
        pytest.param(3, 0, 3, 0, 3, id="all of them"),
        pytest.param(3, 0, 5, 0, 3, id="3.20-the minimum"),
        pytest.param(3, 1, 2, 0, 2, id="one runs"),
        pytest.param(3, 3, 1, 0, 0, id="ready"),
        pytest.param(3, 0, 2, 0, None, id="3.13-too few"),
        pytest.param(3, 1, 2, 2, 2, id="3.16-while enough can live, those that are done do not count"),
        pytest.param(3, 0, 2, 1, 2, id="3.16-once they cannot, they do"),
        pytest.param(3, 1, 0, 2, 0, id="14-the last one of three"),
        pytest.param(3, 0, 1, 2, 1, id="14-its replacement"),
        pytest.param(3, 0, 1, 1, None, id="3.14-one was lost"),
        pytest.param(3, 0, 0, 3, 0, id="all succeeded"),
        pytest.param(0, 0, 2, 0, 0, id="no minimum"),
    ],
)
def test_how_many_more(minimum: int, allocated: int, pending: int, succeeded: int, needed: int | None) -> None:
    assert still_needed(minimum, PodCounts(allocated, pending, succeeded)) == needed


COUNTS = st.integers(0, 6)


@given(minimum=COUNTS, allocated=COUNTS, pending=COUNTS, succeeded=COUNTS)
def test_it_is_the_formula_of_the_text(minimum: int, allocated: int, pending: int, succeeded: int) -> None:
    def ready(more: int) -> bool:
        now, rest = allocated + more, pending - more
        return minimum <= now if minimum <= now + rest else minimum <= now + succeeded

    enough = [more for more in range(pending + 1) if ready(more)]
    assert still_needed(minimum, PodCounts(allocated, pending, succeeded)) == min(enough, default=None)
