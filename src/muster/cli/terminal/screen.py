"""Show one changing text on a whole terminal, without flicker, and restore the previous content afterwards."""

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from muster.cli.session import list_heeded_signals

# Enter the alternate screen, hide the cursor and disable wrapping; and the reverse.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _END_LINE, _END_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_QUIT = b"q"


def can_show() -> bool:
    """Return whether stdout is a terminal that supports drawing."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


class Screen:
    """A full-screen view. It takes over the terminal when the first text is shown, and restores it at the end."""

    def __init__(self) -> None:
        self._taken = False
        self._keys: list[Any] | None = None  # the terminal's modes before the first text
        self._shown: tuple[str, str, str] = ("", "", "")

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been shown so far."""
        return not self._taken

    def show(self, title: str, text: str, note: str = "") -> None:
        """Replace the shown text and draw it. The first call takes over the terminal.

        title: the first line.
        note: a remark at the bottom.
        """
        self._shown = (title, text, note)
        self._take_terminal()
        self.draw()

    def note(self, text: str) -> None:
        """Show a remark below the current text; do nothing before the first text."""
        if self._taken:
            self.show(self._shown[0], self._shown[1], text)

    def draw(self) -> None:
        """Draw the current text again, for example after a change of the terminal's size."""
        size = shutil.get_terminal_size()
        lines = [_make_plain(line, size.columns) for line in fit_lines(*self._shown, size.lines)]
        # Erasing after a line that fills the width would erase its last character.
        below = f"\n{_END_SCREEN}" if len(lines) < size.lines else ""
        sys.stdout.write(_HOME + "\n".join(_END_LINE + line for line in lines) + below)
        sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._keys is not None:
            with suppress(termios.error):  # the terminal may be closed
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, self._keys)
        if self._taken:
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()

    def _take_terminal(self) -> None:
        if self._taken:
            return
        self._taken = True
        if sys.stdin.isatty():
            descriptor = sys.stdin.fileno()
            self._keys = termios.tcgetattr(descriptor)
            tty.setcbreak(descriptor, termios.TCSADRAIN)
            changed = termios.tcgetattr(descriptor)
            changed[6][termios.VSUSP] = b"\0"  # Ctrl-Z would show the shell on the alternate screen
            termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
        sys.stdout.write(_ENTER)


@contextmanager
def watch_for_exit(resized: Callable[[], None]) -> Iterator[asyncio.Future[int]]:
    """Yield a future that is set when the user leaves: to 0 for Ctrl-C or q, otherwise to the number of the signal.

    resized: called when the size of the terminal changes.
    """
    loop, descriptor, signals = asyncio.get_running_loop(), sys.stdin.fileno(), list_heeded_signals()
    left: asyncio.Future[int] = loop.create_future()

    def leave(number: int) -> None:
        if not left.done():
            left.set_result(0 if number == signal.SIGINT else number)

    def pressed() -> None:
        try:
            keys = os.read(descriptor, 1024)
        except OSError:  # the terminal is closed
            keys = b""
        if not keys or _QUIT in keys:
            leave(signal.SIGINT)
            loop.remove_reader(descriptor)

    for number in signals:
        loop.add_signal_handler(number, leave, number)
    loop.add_signal_handler(signal.SIGWINCH, resized)
    if sys.stdin.isatty():
        loop.add_reader(descriptor, pressed)
    try:
        yield left
    finally:
        for number in (*signals, signal.SIGWINCH):
            loop.remove_signal_handler(number)
        loop.remove_reader(descriptor)


def fit_lines(title: str, text: str, note: str, height: int) -> Sequence[str]:
    """Return the lines to draw, at most `height`. If lines are left out, the last one says how many.

    note: the last line; "" for none.
    """
    lines, last = text.split("\n"), [note] if note else []
    room = max(height - 1 - len(last), 1)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"... and {len(lines) - room + 1} more lines"]
    return [title, *lines, *last][: max(height, 1)]


def _make_plain(line: str, width: int) -> str:
    """Return the line with control characters replaced, cut to the width.

    Control characters in a text of another user could move the cursor.
    """
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line[:width])
