"""What fits a screen. (That the terminal comes back: tests/e2e/terminal/test_screens.)"""

import pytest

from muster.cli.terminal.screen import Screen, _make_plain, fit_lines


@pytest.mark.parametrize(
    ("text", "note", "height", "lines"),
    [
        ("a\nb", "", 24, ["title", "a", "b"]),
        ("a\nb", "late", 4, ["title", "a", "b", "late"]),
        ("a\nb\nc", "", 3, ["title", "a", "... and 2 more lines"]),
        ("a\nb\nc", "late", 4, ["title", "a", "... and 2 more lines", "late"]),
        ("a\nb", "late", 2, ["title", "... and 2 more lines"]),
        ("a\nb", "late", 1, ["title"]),
        ("a\nb", "late", 0, ["title"]),
    ],
)
def test_a_picture_has_no_more_lines_than_the_terminal(text: str, note: str, height: int, lines: list[str]) -> None:
    assert fit_lines("title", text, note, height) == lines


def test_what_a_job_says_moves_no_cursor() -> None:
    assert _make_plain("ä \x1b[2J\x07\u202e日", 80) == "ä \ufffd[2J\ufffd\ufffd日"


def test_a_line_ends_at_the_edge() -> None:
    assert [_make_plain("NAME  STATE", width) for width in (0, 6, 80)] == ["", "NAME  ", "NAME  STATE"]
    assert _make_plain("x" * 1_000_000, 40) == "x" * 40


@pytest.mark.parametrize(
    ("height", "drawn"),
    [
        ("3", "\x1b[H\x1b[Kps\n\x1b[K" + "x" * 20 + "\n\x1b[J"),
        ("2", "\x1b[H\x1b[Kps\n\x1b[K" + "x" * 20),
    ],
    ids=["room below", "a full screen"],
)
def test_a_line_that_fills_the_width_keeps_its_last_character(
    height: str, drawn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # After the last column a terminal stays on that character, which an erasing sequence takes with it.
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", height)
    Screen().show("ps", "x" * 21)
    assert capsys.readouterr().out.endswith(drawn)
