"""Why pods of a gang are to get nodes: to start it, to repair it, to let it grow, or for its next wave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gang.demands import Demand, Demands, Size, describe_demand, split_demands


def split(pods: str, size: Size, *, places: bool = True) -> str:
    """The pods as digits, which are their places; of each demand those that it has."""
    found: Demands[str] = split_demands(pods, size, int if places else None)
    demands = {"start": found.start, "repair": found.repair, "growth": found.growth, "wave": found.wave}
    return " ".join(f"{name}={''.join(pods)}" for name, pods in demands.items() if pods)


@pytest.mark.parametrize(
    ("pods", "size", "expected"),
    [
        pytest.param("0123", Size(4), "start=0123", id="all are there"),
        pytest.param("012", Size(4), "", id="the first start waits for all"),
        pytest.param("1", Size(4, 3, 4), "repair=1", id="one was lost"),
        pytest.param("1", Size(4, 2, 4), "repair=1", id="two were lost, and one is there again"),
        pytest.param("145", Size(6, 3, 4), "repair=1 growth=45", id="it lost one and grows"),
        pytest.param("14", Size(6, 3, 4), "repair=1", id="growth waits for all of it, a repair does not"),
        pytest.param("45", Size(6, 4, 4), "growth=45", id="it grows"),
        pytest.param("1", Size(3, 2, 4, done=1), "repair=1", id="one is done, and one was lost"),
        pytest.param("45", Size(5, 3, 4, done=1), "growth=45", id="one is done, and it grows"),
        pytest.param("456", Size(4, 1, in_waves=True), "wave=456", id="the next wave"),
        pytest.param("456", Size(4, 0, in_waves=True), "wave=456", id="the next wave, where the one before has ended"),
    ],
)
def test_pods_that_have_places(pods: str, size: Size, expected: str) -> None:
    assert split(pods, size) == expected


@pytest.mark.parametrize(
    ("pods", "size", "expected"),
    [
        pytest.param("789", Size(3), "start=789", id="all are there"),
        pytest.param("78", Size(3), "", id="the first start waits for all"),
        pytest.param("7", Size(4, 2, 4), "repair=7", id="two were lost, and one is there again"),
        pytest.param("789", Size(6, 3, 4), "repair=7 growth=89", id="the oldest repair, the others are growth"),
        pytest.param("78", Size(6, 3, 4), "repair=7", id="growth waits for all of it"),
        pytest.param("8", Size(3, 3, 4), "growth=8", id="one is done, and one too many is there"),
    ],
)
def test_pods_that_are_all_alike(pods: str, size: Size, expected: str) -> None:
    assert split(pods, size, places=False) == expected


@st.composite
def gangs(draw: st.DrawFn) -> tuple[tuple[int, ...], Size]:
    """A running gang without ends: its places, the bound among those that it held, the unbound among all others."""
    places = draw(st.integers(1, 12))
    held = draw(st.integers(1, places))
    bound = draw(st.sets(st.integers(0, held - 1), min_size=1))
    there = draw(st.sets(st.integers(0, places - 1)))
    return tuple(sorted(there - bound)), Size(places, len(bound), held)


@given(gangs())
def test_of_a_running_gang(gang: tuple[tuple[int, ...], Size]) -> None:
    pods, size = gang
    found = split_demands(pods, size, lambda place: place)
    assert not found.start
    assert not found.wave
    assert set(found.repair) == {place for place in pods if place < size.held}, "what was lost waits for nothing"
    growth = {place for place in pods if place >= size.held}
    assert set(found.growth) == (growth if len(growth) == size.growth else set()), "it grows by all or none"
    assert len(found.repair) <= size.lost_members


@given(gangs())
def test_with_places_or_without_as_many_go(gang: tuple[tuple[int, ...], Size]) -> None:
    pods, size = gang
    alike = split_demands(pods, size)
    assert len(alike.repair) == min(len(pods), size.lost_members)
    assert len(alike.repair) + len(alike.growth) <= len(pods)


@pytest.mark.parametrize(
    ("demand", "pods", "sentence"),
    [
        (Demand.START, 2, ""),
        (Demand.REPAIR, 1, "The gang runs without 1 pod that it lost."),
        (Demand.REPAIR, 2, "The gang runs without 2 pods that it lost."),
        (Demand.GROWTH, 2, "The gang runs, and waits to grow by 2 pods."),
        (Demand.WAVE, 2, "The job runs, and waits to start pods of its next wave."),
    ],
)
def test_what_a_gang_waits_for_is_told_in_a_sentence(demand: Demand, pods: int, sentence: str) -> None:
    assert describe_demand(demand, pods) == sentence
