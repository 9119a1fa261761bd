"""`ps -w` and `top -w`: on a terminal, which is as before afterwards, and in a pipe."""

import signal

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.terminals import terminal

pytestmark = pytest.mark.timeout(120)

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?7h\x1b[?25h\x1b[?1049l"


def test_ps_shows_what_changes_and_gives_the_terminal_back(up: Muster) -> None:
    with terminal(rows=5, columns=80) as tty:
        watching = tty.start(up.command, "ps", "-w", env=up.env())
        tty.reads(ENTER)
        tty.reads(b"no jobs")
        for name in "abcd":
            up("run", "--detach", "--name", name, "--", "sleep", "600")
        tty.reads(b"... and 2 more lines")
        tty.resize(24, 80)
        picture = b""
        while picture.count(b"Running") < 4:  # why one waits is a line more
            picture = tty.reads(b"\x1b[J").rpartition(b"\x1b[H")[2]  # a full screen ends without the sequence
        assert picture.count(b"\n") == 6
        up("cancel", "a")
        while b"Cancelled" not in picture:
            picture = tty.reads(b"\x1b[J")
        assert picture.index(b"\x1b[Kd ") < picture.index(b"\x1b[Ka ")
        tty.press(b"\3")
        tty.reads(LEAVE)
        assert watching.wait(timeout=60) == 0
        assert tty.is_as_before()


@pytest.mark.parametrize(
    ("keys", "number", "code"),
    [(b"q", 0, 0), (b"\x1c", 0, 128 + signal.SIGQUIT), (b"", signal.SIGTERM, 128 + signal.SIGTERM)],
)
def test_top_ends_as_other_programs_do_when_it_is_told_to(up: Muster, keys: bytes, number: int, code: int) -> None:
    with terminal() as tty:
        watching = tty.start(up.command, "top", "-w", env=up.env())
        tty.reads(b"node-0")
        tty.press(keys)
        watching.send_signal(number)
        tty.reads(LEAVE)
        assert watching.wait(timeout=60) == code
        assert tty.is_as_before()


def test_a_cluster_that_stops_is_said_below_what_was_there(up: Muster) -> None:
    with terminal() as tty:
        watching = tty.start(up.command, "top", "-w", env=up.env())
        tty.reads(b"node-0")
        up("down")
        tty.reads(b"node-0")
        tty.reads(b"the cluster is down; start it again with: muster up --detach")
        tty.press(b"q")
        tty.reads(LEAVE)
        assert watching.wait(timeout=60) == 0


def test_in_a_pipe_ps_prints_what_changes_and_top_does_not_watch(up: Muster) -> None:
    up("run", "--detach", "--name", "train", "--", "sleep", "600")
    with up.start("ps", "-w") as watching:
        assert watching.stdout is not None
        assert next(watching.stdout).split()[:3] == ["NAME", "STATE", "PODS"]
        assert next(line for line in watching.stdout if "Running" in line).startswith("train ")
        up("cancel", "train", "--delete")
        assert next(line for line in watching.stdout if "Deleted" in line).startswith("train ")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=60) == 130
    for arguments in (("top", "-w"), ("ps", "-w", "-o", "json")):
        refused = up(*arguments, check=False)
        assert (refused.returncode, refused.stdout) == (2, "")


def test_ps_in_a_pipe_goes_on_after_the_cluster_was_down(up: Muster) -> None:
    with up.start("ps", "-w") as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        up("run", "--detach", "--name", "a", "--", "sleep", "600")
        while not (line := watching.stdout.readline()).startswith("a "):
            assert line, watching.stderr.read()
        up("down")
        while (line := watching.stderr.readline()) != "the cluster is down; start it again with: muster up --detach\n":
            assert line, "the command has left"
        up("up", "--detach", "--port", "0")
        up("run", "--detach", "--name", "b", "--", "sleep", "600")
        while not (line := watching.stdout.readline()).startswith("b "):
            assert line, watching.stderr.read()
        watching.terminate()
