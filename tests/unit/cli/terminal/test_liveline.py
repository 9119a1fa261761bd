"""The line that changes in place, on a terminal and elsewhere."""

import io
import os
import sys

import pytest

from muster.cli.terminal.liveline import LiveLine


class Terminal(io.StringIO):
    """20 columns wide."""

    def isatty(self) -> bool:
        return True


def stderr(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> io.StringIO:
    """The stream, in the place of stderr."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((20, 24)))
    return stream


def test_it_changes_in_place_gives_way_to_what_stays_and_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    with LiveLine({}) as line:
        line.show("a", "1 runs")
        line.show("a", "1 runs")
        line.show("b", "2")
        line.say("b: completed")
        line.show("b", "")
    shown = ["", "a: 1 runs", "a: 1 runs; b: 2", "b: completed\n", "a: 1 runs; b: 2", "a: 1 runs", ""]
    assert terminal.getvalue().split("\r\x1b[K") == shown


def test_it_does_not_break(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    with LiveLine({}) as line:
        line.show("a", "x" * 100)
    assert terminal.getvalue() == "\r\x1b[Ka: " + "x" * 16 + "\r\x1b[K"


@pytest.mark.parametrize(("term", "stream"), [("dumb", Terminal()), ("xterm", io.StringIO())])
def test_a_plain_terminal_and_a_pipe_get_only_what_stays(
    monkeypatch: pytest.MonkeyPatch, term: str, stream: io.StringIO
) -> None:
    stderr(monkeypatch, stream)
    with LiveLine({"TERM": term}) as line:
        line.show("a", "1 runs")
        line.say("done")
    assert stream.getvalue() == "done\n"
