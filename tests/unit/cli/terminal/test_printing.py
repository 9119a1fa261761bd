"""What workers print, as it stands in a file and on a terminal."""

import asyncio
import io
import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.screens import picture

from muster.cli.terminal.liveline import LiveLine
from muster.cli.terminal.printing import Printer
from muster.runtime.containerlogs import STDERR, STDOUT

# A bar of one worker, a line of another, and a bar without an end.
PIECES = [
    ("0", STDERR, b"\r 0%"),
    ("1", STDERR, b"\r 10%"),
    ("0", STDERR, b"\r 50%"),
    ("1", STDOUT, b"hello\nwor"),
    ("0", STDERR, b"\r100%\n"),
    ("1", STDERR, b"\r 20%"),
]


def stream_to(descriptor: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False)))


# Contexts and no fixtures: between the setup of a test and the test, pytest puts its own streams in place.
@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bytes]]:
    """What has been written to the terminal that is stdout and stderr."""
    ours, theirs = os.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # line ends stay as they were written
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    written = bytearray()

    def read() -> bytes:
        while select.select([ours], [], [], 0)[0]:
            written.extend(os.read(ours, 1 << 16))
        return bytes(written)

    with monkeypatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("NO_COLOR", "1")
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, stream_to(theirs))
        yield read
    os.close(ours)
    os.close(theirs)


@contextmanager
def files(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[Callable[[], list[bytes]]]:
    """What has been written to the files that are stdout and stderr."""
    with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream_to(out.fileno()))
        patch.setattr(sys, "stderr", stream_to(err.fileno()))
        yield lambda: [(directory / name).read_bytes() for name in ("out", "err")]


async def show(printer: Printer, pieces: list[tuple[str, bytes, bytes]]) -> None:
    for piece in pieces:
        await printer.show(*piece)


def test_a_terminal_shows_the_unfinished_lines_of_several_workers_below_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(written: Callable[[], bytes]) -> None:
        with LiveLine() as line:
            printer = Printer(ranks=True, line=line)
            await show(printer, PIECES[:3])
            assert picture(written()) == ["[0]  50%", "[1]  10%"]
            await show(printer, PIECES[3:])
            assert picture(written()) == ["[1] hello", "[0] 100%", "[1]  20%", "[1] wor"]
            await printer.finish()
            assert sorted(picture(written())) == ["", "[0] 100%", "[1]  20%", "[1] hello", "[1] wor"]

    with terminal(monkeypatch) as written:
        asyncio.run(main(written))


def test_a_file_keeps_the_last_state_of_lines_of_several_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def main(written: Callable[[], list[bytes]]) -> None:
        with LiveLine() as line:
            printer = Printer(ranks=True, line=line)
            await show(printer, PIECES)
            assert written() == [b"[1] hello\n", b"[0] 100%\n"]
            await show(printer, [("1", STDERR, b"\r    \r")])
            await printer.finish()
            assert written() == [b"[1] hello\n[1] wor\n", b"[0] 100%\n"]

    with files(monkeypatch, tmp_path) as written:
        asyncio.run(main(written))


def test_one_worker_is_shown_byte_for_byte(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def main() -> None:
        with LiveLine() as line:
            printer = Printer(ranks=False, line=line)
            await show(printer, PIECES)
            await printer.finish()

    with terminal(monkeypatch) as on_terminal:
        asyncio.run(main())
        assert on_terminal() == b"".join(text for _, _, text in PIECES)
    with files(monkeypatch, tmp_path) as in_files:
        asyncio.run(main())
        assert in_files() == [b"".join(text for _, one, text in PIECES if one == stream) for stream in (STDOUT, STDERR)]
