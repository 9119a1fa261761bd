"""Which jobs `muster ps` shows."""

from typing import Any, get_args

import pytest

from muster.cli.commands.ps import STATES, selected
from muster.insight.jobstate import Word


def row(name: str, state: str, queue: str = "") -> dict[str, Any]:
    return {"name": name, "state": state, "queue": queue}


ROWS = [row("train", "Running", "vision"), row("tune", "Queued", "vision"), row("sweep", "Queued", "speech")]


@pytest.mark.parametrize(
    ("jobs", "states", "queue", "names"),
    [
        ((), (), "", ["train", "tune", "sweep"]),
        (("sweep", "train"), (), "", ["train", "sweep"]),
        ((), ("Queued",), "", ["tune", "sweep"]),
        ((), ("Queued", "Running"), "vision", ["train", "tune"]),
        ((), (), "speech", ["sweep"]),
        (("train",), ("Queued",), "", []),
    ],
    ids=["all", "named", "a state", "states of a queue", "a queue", "named, of another state"],
)
def test_what_is_shown(jobs: tuple[str, ...], states: tuple[str, ...], queue: str, names: list[str]) -> None:
    assert [one["name"] for one in selected(ROWS, jobs, states, queue)] == names


def test_every_state_can_be_asked_for() -> None:
    words = {word for some in get_args(Word) for word in get_args(some)}
    # What is admitted is shown as Starting or Running.
    assert sorted(STATES) == sorted(words - {"Admitted"})
