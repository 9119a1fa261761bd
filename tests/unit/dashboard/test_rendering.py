"""How values are written on pages."""

import pytest

from muster.dashboard.rendering import shorten
from muster.insight.text import make_sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("jobs are those of namespace default", "Jobs are those of namespace default."),
        ("no engine answers: does one run?", "No engine answers: does one run?"),
        ("Pods are not shown: forbidden.", "Pods are not shown: forbidden."),
    ],
)
def test_a_note_becomes_a_sentence(text: str, sentence: str) -> None:
    assert make_sentence(text) == sentence


def test_a_line_of_a_list_has_the_beginning_of_a_very_long_reason() -> None:
    assert shorten("insufficient quota") == "insufficient quota"
    assert shorten("x " * 3000) == "x " * 199 + "x…"
