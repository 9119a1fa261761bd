"""A terminal with a command on it, as a user has it in front of them."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# A user who waits longer for what should be on the screen gives up.
PATIENCE = 80.0


class Terminal:
    """A terminal of some size, with its keyboard and what stands on it."""

    def __init__(self, rows: int, columns: int) -> None:
        self.ours, self.theirs = pty.openpty()
        self.heard = b""
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.theirs)
        self.command: subprocess.Popen[bytes] | None = None

    def resize(self, rows: int, columns: int) -> None:
        """From now on it has another size; what runs on it is told so by the kernel."""
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def start(self, *command: str, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Run the command on it, in the foreground."""

        # Who leads a session and opens a terminal has it.
        opening = 'exec "$@" < "$0" > "$0" 2>&1'
        line = ["sh", "-c", opening, os.ttyname(self.theirs), *command]
        # The terminal says its size itself; pytest has loaded readline, which tells children of another.
        own = {name: value for name, value in env.items() if name not in ("LINES", "COLUMNS")}
        self.command = subprocess.Popen(line, env=own | {"TERM": "xterm"}, start_new_session=True)
        return self.command

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self.ours, keys)

    def reads(self, words: bytes) -> bytes:
        """What comes until these words do, with them; what comes after them is for the next call.

        Fails with what came last where they do not.
        """
        until = time.monotonic() + PATIENCE
        while words not in self.heard:
            ready, _, _ = select.select([self.ours], [], [], max(until - time.monotonic(), 0))
            assert ready, f"{words!r} did not come, of a command that has {self._state()}; last came {self._last()}"
            self.heard += os.read(self.ours, 65536)
        head, _, self.heard = self.heard.partition(words)
        return head + words

    def _state(self) -> str:
        ended = self.command and self.command.poll()
        return "not ended" if ended is None else f"ended with {ended}"

    def _last(self) -> str:
        return "\n".join(repr(picture) for picture in self.heard.split(b"\x1b[H")[-4:])

    def is_as_before(self) -> bool:
        """Whether it treats keys as it did."""
        return termios.tcgetattr(self.theirs) == self.before


@contextmanager
def terminal(rows: int = 24, columns: int = 80) -> Iterator[Terminal]:
    """One that goes with the context."""
    found = Terminal(rows, columns)
    try:
        yield found
    finally:
        os.close(found.ours)
        os.close(found.theirs)
