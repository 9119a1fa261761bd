"""Lines that a program writes over, in whatever pieces they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actions.following.carriagereturns import LINE_BYTES, is_wiped, last_state, make_row, split_lines


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (b"", b""),
        (b"plain", b"plain"),
        (b"\r 0%\r 50%\r100%", b"100%"),  # as tqdm draws
        (b" 0%\r 50%\r100%\r", b"100%"),  # as others do
        (b"windows\r", b"windows"),
        (b"\r\r", b""),
        (b"\r100%\r    \r", b"    "),
    ],
)
def test_the_last_state_of_a_line(line: bytes, state: bytes) -> None:
    assert last_state(line) == state


@pytest.mark.parametrize(
    ("begun", "text", "lines", "rest"),
    [
        (b"", b"", b"", b""),
        (b"", b"a\n\nb\n", b"a\n\nb\n", b""),
        (b"a", b"b\nc", b"ab\n", b"c"),
        (b"", b"\r 0%", b"", b"\r 0%"),
        (b"\r 0%", b"\r 50%\r100%", b"", b"\r100%"),
        (b" 0%\r", b" 50%\r", b"", b"\r 50%\r"),
        (b"\r 50%", b"\r100%\nnext\r\nlast", b"100%\nnext\n", b"last"),
        (b"\r 50%\r", b"\r\n", b" 50%\n", b""),
        (b"x" * LINE_BYTES, b"x", b"x" * (LINE_BYTES + 1) + b"\n", b""),
    ],
)
def test_text_is_split_into_last_states(begun: bytes, text: bytes, lines: bytes, rest: bytes) -> None:
    assert split_lines(begun, text) == (lines, rest)


@given(st.lists(st.text("\r\n ab", max_size=5).map(str.encode), max_size=8))
def test_pieces_make_no_difference(pieces: list[bytes]) -> None:
    lines, rest = b"", b""
    for piece in pieces:
        whole, rest = split_lines(rest, piece)
        lines += whole
    at_once, rest_at_once = split_lines(b"", b"".join(pieces))
    assert lines == at_once
    assert (last_state(rest), is_wiped(rest)) == (last_state(rest_at_once), is_wiped(rest_at_once))


@pytest.mark.parametrize(
    ("line", "wiped"), [(b"", False), (b"  ", False), (b"\r5%", False), (b"\r5%\r  \r", True), (b"\r", True)]
)
def test_a_bar_that_leaves_nothing_behind(line: bytes, wiped: bool) -> None:
    assert is_wiped(line) == wiped


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"\r5%\r\xe2\x96\x88 10%  ", "\N{FULL BLOCK} 10%"),
        (b"\r5%\r   \r", ""),
        (b"\x1b[1;31mred\x1b[0m\tand\x07 \x1b[2Aup", "red and up"),
        (b"\x1b]0;title\x07\xff\xe2\x96", "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_row_moves_no_cursor(line: bytes, row: str) -> None:
    assert make_row(line) == row
