"""How values are written on pages."""

import pytest

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
