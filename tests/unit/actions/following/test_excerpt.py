"""Lines as an excerpt wants them, in whatever pieces they come."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from muster.actions.following.excerpt import _LINE_BYTES, WHOLE, Excerpt, Lines
from muster.api.values.patterns import line_pattern
from muster.runtime.containerlogs import STDERR, STDOUT


def shown(excerpt: Excerpt, *pieces: tuple[bytes, bytes, bytes]) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []

    async def show(stream: bytes, text: bytes) -> None:
        found.append((stream, text))

    async def main() -> None:
        lines = Lines(excerpt, show)
        for piece in pieces:
            await lines.add(*piece)
        await lines.finish()

    asyncio.run(main())
    return found


def test_whole_it_is_what_was_written() -> None:
    pieces = [(STDOUT, b"1", b"a\nb"), (STDERR, b"2", b"\r\xff")]
    assert shown(WHOLE, *pieces) == [(STDOUT, b"a\nb"), (STDERR, b"\r\xff")]


def test_a_line_has_the_time_of_its_beginning_in_each_stream() -> None:
    pieces = [(STDOUT, b"1", b"a\nb\n"), (STDOUT, b"2", b"c"), (STDERR, b"3", b"x\n"), (STDOUT, b"4", b"d\n"),
              (STDOUT, b"5", b"e")]  # fmt: skip
    assert shown(Excerpt(stamped=True), *pieces) == [
        (STDOUT, b"1 a\n1 b\n"), (STDERR, b"3 x\n"), (STDOUT, b"2 cd\n"), (STDOUT, b"5 e\n")
    ]  # fmt: skip


def test_the_pattern_is_sought_in_the_line_and_not_in_its_time() -> None:
    excerpt = Excerpt(matches=line_pattern("^[0-9]+$|caf\u00e9"), stamped=True)
    pieces = [(STDOUT, b"1", b"12\nx12\n\xff caf\xc3\xa9 \xfe\n"), (STDOUT, b"2", b"3"), (STDOUT, b"3", b"4\n")]
    assert shown(excerpt, *pieces) == [(STDOUT, b"1 12\n1 \xff caf\xc3\xa9 \xfe\n"), (STDOUT, b"2 34\n")]


def test_a_line_without_an_end_is_taken_for_several() -> None:
    piece = b"x" * (_LINE_BYTES // 2 + 1)
    assert shown(Excerpt(matches=bool), *[(STDOUT, b"1", piece)] * 3) == [
        (STDOUT, 2 * piece + b"\n"), (STDOUT, piece + b"\n")
    ]  # fmt: skip


@given(st.lists(st.binary(max_size=6), max_size=6))
def test_pieces_make_no_difference(pieces: list[bytes]) -> None:
    excerpt = Excerpt(matches=lambda line: b"\0" not in line)
    whole = shown(excerpt, (STDOUT, b"1", b"".join(pieces)))
    assert b"".join(text for _, text in shown(excerpt, *((STDOUT, b"1", one) for one in pieces))) == b"".join(
        text for _, text in whole
    )
