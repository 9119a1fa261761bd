"""Tests of which workloads may not be preempted for which, after preemptions."""

import pytest

from muster.queueing.pending.displaced import Displacements


def parse_displacements(*lines: str) -> Displacements:
    """Parse lines `PREEMPTOR > VICTIM`; all victims wait again, in the ClusterQueue of their first letter."""
    known = Displacements()
    for line in lines:
        preemptor, victim = line.split(" > ")
        known.record(preemptor, [victim])
        known.came_back(victim, victim[0])
    return known


@pytest.mark.parametrize(
    ("lines", "protected"),
    [
        pytest.param((), "", id="nobody"),
        pytest.param(("a > b",), "b", id="a victim from its preemptor"),
        pytest.param(("b > a",), "b", id="a preemptor from its victim"),
        pytest.param(("c > b", "b > a"), "b c", id="and from the victims of its victims"),
        pytest.param(("a > b", "b > c"), "b", id="those may go for the first"),
        pytest.param(("b > c", "c > b"), "", id="others take turns"),
        pytest.param(("b > a", "c > a", "a > d"), "b c d", id="all of them"),
        pytest.param(("a > b", "b > a"), "b", id="a circle"),
    ],
)
def test_who_is_protected_from_a(lines: tuple[str, ...], protected: str) -> None:
    assert parse_displacements(*lines).protected_from("a") == set(protected.split())


def test_a_displacement_counts_once_the_victim_waits_again() -> None:
    known = Displacements()
    known.record("a", ["b"])
    assert not known.protected_from("a")
    known.record("c", ["b"])  # it goes for the first, and another one profits
    known.came_back("b", "q")
    assert (known.protected_from("a"), known.protected_from("c")) == ({"b"}, set())
    known.came_back("b", "q")
    assert known.protected_from("b") == {"a"}


def test_it_counts_until_something_ends_in_the_tree() -> None:
    known = parse_displacements("a > b1", "a > c1")
    known.forget(["d"])
    assert known.protected_from("a") == {"b1", "c1"}
    known.forget(["b", "d"])
    assert known.protected_from("a") == {"c1"}
    known.forget(["c"])
    assert not known.protected_from("a")


@pytest.mark.parametrize("gone", ["a", "b"])
def test_it_ends_with_either(gone: str) -> None:
    known = parse_displacements("a > b", "b > c")
    known.forget_workload(gone)
    assert "b" not in known.protected_from("a")
    assert "a" not in known.protected_from("b")
    assert known.protected_from("c") == ({"b"} if gone == "a" else set())


@pytest.mark.parametrize("back", [True, False], ids=["came back", "leaving"])
@pytest.mark.parametrize("order", ["a", "b", "ab", "ba"])
def test_of_workloads_that_are_gone_nothing_is_left(order: str, *, back: bool) -> None:
    known = Displacements()
    known.record("a", ["b"])
    if back:
        known.came_back("b", "q")
        known.record("a", ["b"])
        known.came_back("b", "r")  # it was moved meanwhile
    for gone in order:
        known.forget_workload(gone)
    assert {name: held for name, held in vars(known).items() if held} == {}


def test_once_something_ends_nothing_is_left_of_who_came_back() -> None:
    known = parse_displacements("a > b1", "c > b1", "a > b2")
    known.forget(["b"])
    assert {name: held for name, held in vars(known).items() if held} == {}


def test_who_goes_for_one_that_is_gone_counts_for_the_next() -> None:
    known = Displacements()
    known.record("a", ["b"])
    known.forget_workload("a")
    known.record("c", ["b"])
    known.came_back("b", "q")
    assert (known.protected_from("a"), known.protected_from("c")) == (set(), {"b"})


def test_who_left_and_is_gone_does_not_count_when_another_comes_by_its_name() -> None:
    known = Displacements()
    known.record("a", ["b"])
    known.forget_workload("b")
    known.came_back("b", "q")
    assert not known.protected_from("a")
