"""Header lists are read and written as a library of others does it; what makes no sense is refused, and that is all."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.front.http2.headers import Decoder, HeaderError, TooLongError, encode

MOST = 64 * 1024
TEXTS = st.binary(max_size=40) | st.sampled_from([b":path", b"accept", b"x" * 200, bytes(range(256)), b"/api/v1/pods"])
LISTS = st.lists(st.tuples(TEXTS, TEXTS), max_size=20)


@given(st.lists(st.tuples(LISTS, st.booleans(), st.sampled_from([0, 100, 4096])), max_size=6))
def test_blocks_of_a_peer_are_read(lists):
    """Whatever it keeps in its table, and however it writes."""
    encoder, decoder = hpack.Encoder(), Decoder(1 << 20)
    for fields, huffman, size in lists:
        encoder.header_table_size = size
        assert decoder.decode(encoder.encode(fields, huffman=huffman)) == fields


@given(LISTS)
def test_a_peer_reads_our_blocks(fields):
    assert hpack.Decoder(1 << 20).decode(encode(fields), raw=True) == fields


def told_by_the_peer(decoder, block):
    try:
        return [tuple(field) for field in decoder.decode(block, raw=True)]
    except hpack.HPACKError:
        return None


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5))
def test_nonsense(blocks):
    """What a peer refuses is refused, what it reads is read, and nothing is raised but that it cannot be."""
    peer, decoder = hpack.Decoder(MOST), Decoder(MOST)
    for block in blocks:
        expected = told_by_the_peer(peer, block)
        if expected is None:
            with pytest.raises(HeaderError):
                decoder.decode(block)
            return
        assert decoder.decode(block) == expected


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (b"\x80", "a field is named that is not known"),
        (b"\xbe", "a field is named that is not known"),
        (b"\x40", "a header block ends too early"),
        (b"\x40\x01", "a header block ends too early"),
        (b"\xff", "a header block ends too early"),
        (b"\x7f" + b"\x80" * 10 + b"\x01", "a number is too long"),
        (b"\x3f\xe2\x1f", "the table is to be larger than was said"),
        (b"\x82\x20", "the size of the table changes behind a field"),
        (b"\x00\x81\x00\x00", "the padding is wrong"),
        (b"\x00\x84\xff\xff\xff\xff\x00", "the end is no part of a text"),
    ],
)
def test_what_cannot_be_read(block, said):
    with pytest.raises(HeaderError, match=said):
        Decoder(MOST).decode(block)


def test_a_short_block_makes_no_long_list():
    """A field of 4,000 bytes, kept once, and named by one byte each time."""
    decoder = Decoder(MOST)
    decoder.decode(encode_kept(b"a", b"x" * 3_900))
    assert len(decoder.decode(b"\xbe" * 16)) == 16
    with pytest.raises(TooLongError):
        decoder.decode(b"\xbe" * 17)


def encode_kept(name, value):
    encoder = hpack.Encoder()
    return encoder.encode([(name, value)])
