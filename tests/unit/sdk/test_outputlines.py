"""Lines of text out of what comes."""

import asyncio

from muster.runtime.containerlogs import STDERR, STDOUT
from muster.sdk.outputlines import Lines


def told(*pieces, ranks, stream=b""):
    found: list[str] = []

    async def tell(some):
        found.extend(some)

    async def show():
        lines = Lines(tell, ranks=ranks, stream=stream)
        for rank, text, *of in pieces:
            await lines.show(rank, of[0] if of else STDOUT, text)
        await lines.finish()

    asyncio.run(show())
    return found


def test_a_line_is_told_once_it_has_ended():
    assert told(("0", b"a\nb"), ("1", b"x\n"), ("0", b"c\n\n"), ("1", b"y"), ranks=True) == [
        "[0] a", "[1] x", "[0] bc", "[0] ", "[1] y"
    ]  # fmt: skip
    assert told(("0", b"a\xff\n"), ranks=False) == ["a\N{REPLACEMENT CHARACTER}"]


def test_a_line_without_an_end_is_told_in_parts():
    assert [len(line) for line in told(("0", b"a" * (1 << 20)), ("0", b"a"), ("0", b"b\n"), ranks=False)] == [
        (1 << 20) + 1, 1
    ]  # fmt: skip


def test_of_one_stream_it_is_said_as_well_what_is_missing():
    gone = b"[muster: 5 bytes are missing here]\n"
    pieces = [("0", gone, STDERR), ("0", b"a\n"), ("0", b"b\n", STDERR)]
    assert told(*pieces, ranks=False, stream=STDOUT) == ["[muster: 5 bytes are missing here]", "a"]
