"""Answers of HTTP/1.1 are read the same, however their bytes come."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.kube.http1 import AnswerReader, MalformedAnswerError, write_request

WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\nhello\r\nabcd"
IN_CHUNKS = (
    b"HTTP/1.1 201 Created\r\ntransfer-encoding: Chunked\r\nWarning: 299 - a\r\nwarning: 299 - b\r\n\r\n"
    b"5\r\nhello\r\n6;name=value\r\n\r\nabcd\r\n0\r\nTrailer: x\r\n\r\n"
)
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nhello\r\nabcd"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def read(pieces: list[bytes]) -> tuple[AnswerReader, bytes]:
    reader = AnswerReader()
    body = b"".join(part for piece in pieces for part in reader.add(piece))
    return reader, body


def split(text: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize("text", [WITH_LENGTH, IN_CHUNKS])
@given(st.lists(st.integers(0, len(IN_CHUNKS))))
def test_it_does_not_matter_how_the_bytes_come(text: bytes, places: list[int]) -> None:
    reader, body = read(split(text, places))
    assert body == b"hello\r\nabcd"
    assert reader.is_whole
    assert reader.may_go_on


def test_names_of_headers_have_lower_case_and_repeated_ones_are_joined() -> None:
    reader, _ = read([IN_CHUNKS])
    assert reader.head is not None
    assert reader.head.status == 201
    assert reader.head.headers["warning"] == "299 - a, 299 - b"


def test_an_answer_without_a_size_ends_with_the_connection() -> None:
    reader, body = read([TO_THE_END])
    assert (body, reader.is_whole) == (b"hello\r\nabcd", False)
    assert reader.end()
    assert not reader.may_go_on


def test_an_answer_that_is_cut_off_is_not_whole() -> None:
    for text in (WITH_LENGTH[:-1], IN_CHUNKS[:-3], WITH_LENGTH[:20], b""):
        assert not read([text])[0].end()


def test_an_answer_may_have_no_body_and_may_close_the_connection() -> None:
    reader, body = read([EMPTY])
    assert (body, reader.is_whole, reader.may_go_on) == (b"", True, True)
    reader, _ = read([WITH_LENGTH.replace(b"Content-Type: application/json", b"Connection: close")])
    assert (reader.is_whole, reader.may_go_on) == (True, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "it is not HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\r\n\r\n", "it is not HTTP"),
        (b"x" * 70_000, "its head has no end"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "'many' as a size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "'-1' as a size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "'zz' as a size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "longer than its size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000, "has no end"),
    ],
)
def test_what_is_no_answer_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(MalformedAnswerError, match=problem):
        read([text])


def test_a_request_has_its_length_and_no_header_adds_another() -> None:
    text = write_request("POST", "/api?x=1", [("Accept", "a/b")], b"{}")
    assert text == b"POST /api?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: a/b\r\nContent-Length: 2\r\n\r\n{}"
    assert b"Content-Length: 0" in write_request("POST", "/", [], b"")
    assert b"Content-Length" not in write_request("GET", "/", [], b"")
    with pytest.raises(MalformedAnswerError):
        write_request("GET", "/", [("Accept", "a\r\nImpersonate-User: root")], b"")
