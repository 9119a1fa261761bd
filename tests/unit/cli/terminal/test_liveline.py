"""The line that changes in place, on a terminal and elsewhere."""

import io
import os
import pty
import sys
import termios
import tty

import pytest
from tests.screens import picture

from muster.cli.terminal.liveline import LiveLine
from muster.runtime.containerlogs import STDERR


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
    shown = ["a: 1 runs", "a: 1 runs; b: 2", "b: completed\na: 1 runs; b: 2", "a: 1 runs", ""]
    assert terminal.getvalue().split("\r\x1b[K") == shown


def test_a_text_without_a_name_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    with LiveLine({}) as line:
        line.show("", "1 of 2")
    assert terminal.getvalue().split("\r\x1b[K") == ["1 of 2", ""]


def test_a_pager_has_the_terminal_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb") as screen:
        cooked = termios.tcgetattr(theirs)
        monkeypatch.setattr(sys, "stderr", terminal)
        with LiveLine({}) as line:
            line.show("a", "1")
            tty.setcbreak(theirs)
            line.show("a", "2")
            with line.around(b"out ") as framed:
                assert framed == b"out "
            line.say("a: remark")
            termios.tcsetattr(theirs, termios.TCSANOW, cooked)
            line.show("a", "3")
        shown = b"a: 1\r\na: remark\r\na: 3\r\x1b[K"
        assert screen.read(len(shown)) == shown


def test_it_does_not_break(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    with LiveLine({}) as line:
        line.show("a", "x" * 100)
    assert terminal.getvalue() == "a: " + "x" * 16 + "\r\x1b[K"


@pytest.mark.parametrize(("term", "stream"), [("dumb", Terminal()), ("xterm", io.StringIO())])
def test_a_plain_terminal_and_a_pipe_get_only_what_stays(
    monkeypatch: pytest.MonkeyPatch, term: str, stream: io.StringIO
) -> None:
    stderr(monkeypatch, stream)
    with LiveLine({"TERM": term}) as line:
        line.show("a", "1 runs")
        line.say("done")
    assert stream.getvalue() == "done\n"


def test_rows_of_workers_stand_above_the_status_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    with LiveLine({}) as line:
        line.show("job", "3 workers run")
        for rank, text in (("10", "[10] 5%"), ("2", "[2] 10%")):
            line.set_row(rank, STDERR, text)
        with line.around(b"[0] hello\n") as framed:
            terminal.write(framed.decode())
        assert picture(terminal.getvalue().encode()) == ["[0] hello", "[2] 10%", "[10] 5%", "job: 3 workers run"]
        line.set_row("2", STDERR, "")
        line.say("b: completed")
        assert picture(terminal.getvalue().encode())[-3:] == ["b: completed", "[10] 5%", "job: 3 workers run"]
    rows = picture(terminal.getvalue().encode())
    assert [row for row in rows if row] == ["[0] hello", "b: completed"]


def test_what_changes_while_output_is_written_is_drawn_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    line = LiveLine({})
    line.set_row("0", STDERR, "[0] 1%")
    with line.around(b"text\n") as framed:
        line.set_row("0", STDERR, "[0] 2%")
        line.show("job", "1 runs")
        line.say("a remark")
        terminal.write(framed.decode())
    assert picture(terminal.getvalue().encode()) == ["text", "a remark", "[0] 2%", "job: 1 runs"]
    with line.around(b"") as framed:
        assert framed == b""


def test_rows_that_have_no_room_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    line = LiveLine({})
    for rank in range(100):
        line.set_row(str(rank), STDERR, f"[{rank}] 5%")
    line.show("job", "100 workers run")
    assert picture(terminal.getvalue().encode()) == [
        *(f"[{rank}] 5%" for rank in range(78, 100)),
        "job: 100 workers ru",
    ]


@pytest.mark.parametrize(("data", "shown"), [(b"50%", "50%\nsaid\n"), (b"line\n", "line\nsaid\n"), (b"", "said\n")])
def test_what_is_said_begins_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch, data: bytes, shown: str) -> None:
    terminal = stderr(monkeypatch, Terminal())
    line = LiveLine({})
    with line.around(data) as framed:
        terminal.write(framed.decode())
    line.say("said")
    assert terminal.getvalue() == shown
