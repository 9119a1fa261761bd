"""Which jobs `muster ps` shows."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from muster.cli.commands.observation.ps import (
    STATES,
    arrange,
    find_changed,
    find_earliest_end,
    fit_columns,
    select_rows,
    sort_unfinished_first,
)
from muster.insight.jobs.state import Word

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def row(name: str, state: str, queue: str = "", owner: str = "ada") -> dict[str, Any]:
    return {"name": name, "state": state, "queue": queue, "owner": owner}


ROWS = [row("train", "Running", "vision"), row("tune", "Queued", "vision", "bob"), row("sweep", "Queued", "speech")]


@pytest.mark.parametrize(
    ("jobs", "states", "queue", "user", "names"),
    [
        ((), (), "", "", ["train", "tune", "sweep"]),
        (("sweep", "train"), (), "", "", ["train", "sweep"]),
        ((), ("Queued",), "", "", ["tune", "sweep"]),
        ((), ("Queued", "Running"), "vision", "", ["train", "tune"]),
        ((), (), "speech", "", ["sweep"]),
        (("train",), ("Queued",), "", "", []),
        ((), (), "", "ada", ["train", "sweep"]),
    ],
    ids=["all", "named", "a state", "states of a queue", "a queue", "named, of another state", "of a user"],
)
def test_what_is_shown(jobs: tuple[str, ...], states: tuple[str, ...], queue: str, user: str, names: list[str]) -> None:
    assert [one["name"] for one in select_rows(ROWS, jobs, states, queue, user)] == names


def test_every_state_can_be_asked_for() -> None:
    words = {word for some in get_args(Word) for word in get_args(some)}
    # What is admitted is shown as Starting or Running.
    assert sorted(STATES) == sorted(words - {"Admitted"})


def test_jobs_that_go_on_come_before_those_that_ended_the_newest_last() -> None:
    def ended(name: str, minute: int | None, state: str = "Completed") -> dict[str, Any]:
        return row(name, state) | {"ended": None if minute is None else NOON + timedelta(minutes=minute)}

    rows = [ended("long-ago", -61), ended("late", -1), row("a", "Running"), ended("early", -60), row("b", "Queued")]
    rows += [ended("deleted", -2, "Deleted"), ended("unknown", None, "Failed")]
    recent = ["a", "b", "early", "deleted", "late", "unknown"]
    assert [one["name"] for one in arrange(rows, NOON - timedelta(hours=1))] == recent
    assert [one["name"] for one in arrange(rows, None)] == [*recent[:2], "long-ago", *recent[2:]]


@pytest.mark.parametrize(
    ("output", "only", "earliest"),
    [
        ("", {}, NOON - timedelta(hours=1)),
        ("wide", {}, NOON - timedelta(hours=1)),
        ("json", {}, None),
        ("yaml", {}, None),
        ("name", {}, None),
        ("", {"past": True}, None),
        ("", {"jobs": ("train",)}, None),
        ("", {"states": ("Failed",)}, None),
    ],
)
def test_only_tables_leave_out_jobs_by_the_clock(output: str, only: dict[str, Any], earliest: datetime | None) -> None:
    assert find_earliest_end({"past": False, "jobs": (), "states": ()} | only, output, NOON) == earliest


def test_what_is_over_comes_last_the_newest_of_it_first() -> None:
    rows = [row("a", "Failed"), row("b", "Running"), row("c", "Completed"), row("d", "Queued")]
    assert [one["name"] for one in sort_unfinished_first(rows)] == ["b", "d", "c", "a"]


def test_what_changed_is_what_is_not_only_older() -> None:
    def named(name: str, state: str, age: str) -> dict[str, Any]:
        return row(name, state) | {"namespace": "default", "age": age, "reason": ""}

    known: dict[tuple[str, str], dict[str, Any]] = {}
    assert len(find_changed([named("a", "Running", "1s"), named("b", "Queued", "1s")], known)) == 2
    assert find_changed([named("a", "Running", "2s"), named("b", "Queued", "2s")], known) == []
    assert find_changed([named("b", "Running", "3s")], known) == [
        named("b", "Running", "3s"),
        named("a", "Deleted", "2s"),
    ]
    assert find_changed([named("b", "Running", "4s")], known) == []


TABLE = {
    "NAME": ["train", "digits-of-the-whole-archive-seed-12"],
    "STATE": ["Running", "Queued"],
    "PODS": ["4/4", "0/64"],
    "QUEUE": ["default", "vision"],
    "POS": ["-", "1"],
    "AGE": ["3h20m", "42s"],
    "REASON": ["", "insufficient unused quota"],
}


@pytest.mark.parametrize(
    ("width", "headings", "name"),
    [
        (70, [*TABLE], "digits-of-the-whole-archive-seed-12"),
        (60, [*TABLE], "digits-of-the-whole-archive-…"),
        (50, ["NAME", "STATE", "PODS", "QUEUE", "AGE", "REASON"], "digits-of-the-whole-ar…"),
        (40, ["NAME", "STATE", "PODS", "AGE", "REASON"], "digits-of-the-whole-…"),
        (20, ["NAME", "STATE", "REASON"], "digits-of-the-whole…"),
    ],
)
def test_a_narrow_screen_keeps_the_state_beside_a_long_name(width: int, headings: list[str], name: str) -> None:
    fitted = fit_columns(TABLE, width)
    assert [*fitted] == headings
    assert fitted["NAME"] == ["train", name]
