"""A command beside a worker: on a user's terminal, and with pipes at its ends."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from tests.e2e.conftest import Muster

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def train(shared_up: Muster) -> Iterator[Muster]:
    """A job of two workers that run."""
    shared_up("run", "--detach", "--name", "train", "--workers", "2", "--", "sleep", "600")
    while "2/2" not in shared_up("ps").stdout:
        time.sleep(0.2)
    yield shared_up
    shared_up("cancel", "train")


def test_it_has_our_streams_and_gives_us_its_exit_code(train):
    script = "cat; echo $RANK >&2; exit 7"
    done = train("exec", "train", "--rank", "1", "--", "sh", "-c", script, input="x" * 300_000, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "x" * 300_000, "1\n")
    assert train("exec", "train", "--", "sh", "-c", "echo $RANK").stdout == "0\n"
    for arguments, code, words in (
        (("--rank", "2", "--", "true"), 2, "train has no worker 2: its ranks are 0 to 1"),
        (
            ("--", "nonesuch"),
            127,
            'Error: the command could not be started: exec: "nonesuch": executable file not found',
        ),
        (("--", "/"), 126, "Error: the command could not be started: "),
        (("-c", "nonesuch", "--", "true"), 1, "container nonesuch is not valid"),
    ):
        refused = train("exec", "train", *arguments, check=False)
        assert refused.returncode == code
        assert words in refused.stderr


def test_a_reader_that_has_enough_ends_it(train):
    line = f"{train.command} exec train -- yes | head -1"
    done = subprocess.run(line, shell=True, env=train.env(), capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("y\n", "")


def test_on_a_terminal_it_runs_on_one_that_is_as_large(train):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [train.command, "exec", "train", "--", "sh"]
    shell = subprocess.Popen(command, env=train.env(), stdin=theirs, stdout=theirs, stderr=theirs)

    def says(words: bytes) -> None:
        heard = b""
        while words not in heard:
            heard += os.read(ours, 4096)

    os.write(ours, b"stty size\n")
    says(b"30 90")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    shell.send_signal(signal.SIGWINCH)
    os.write(ours, b"until stty size | grep 120; do sleep 0.1; done\n")
    says(b"40 120")
    # A shell that is just starting a program can miss the key.
    os.write(ours, b"sh -c 'echo $((6 * 7)); exec sleep 600'\n")
    says(b"42")
    os.write(ours, b"\3")  # it ends that, and not us
    os.write(ours, b"exit 5\n")
    assert shell.wait(timeout=60) == 5
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
