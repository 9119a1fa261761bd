"""Turn a decoded header list into the head of a request, and refuse lists that RFC 9113 forbids."""

import re
from typing import NamedTuple
from urllib.parse import unquote

from muster.cluster.apiserver.front.http2.headers import Field

_PSEUDO = frozenset({b":method", b":scheme", b":authority", b":path"})
# Headers about one connection in HTTP/1.1; HTTP/2 forbids them.
_FORBIDDEN = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_METHOD = re.compile(rb"[A-Z]+")
_TARGET = re.compile(rb"/[!-~]*")
_NO_TEXT = re.compile(rb"[\0\r\n]")
_MAX_LENGTH_DIGITS = 18


class Malformed(Exception):  # noqa: N818  (the name states the fact)
    """A header list that is no request. The server resets its stream, and the connection continues."""


class Head(NamedTuple):
    """A request without its body.

    path: the decoded path, without percent-encoding.
    length: the body's length by the headers; None if they do not contain it.
    """

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: list[Field]
    length: int | None


def head_of(fields: list[Field]) -> Head:
    """Return the head of the request that a header list describes. Raises `Malformed`."""
    count = next((number for number, (name, _) in enumerate(fields) if name[:1] != b":"), len(fields))
    pseudo, headers = dict(fields[:count]), fields[count:]
    if len(pseudo) < count or not pseudo.keys() <= _PSEUDO:
        raise Malformed("pseudo-headers that are none, or twice")
    names = [name for name, _ in headers]
    if not (_FORBIDDEN.isdisjoint(names) and all(map(_NAME.fullmatch, names))):
        raise Malformed("a header that is none")
    if b"te" in names and any(value != b"trailers" for name, value in headers if name == b"te"):
        raise Malformed("an encoding of HTTP/1.1")
    if _NO_TEXT.search(b"\1".join([value for _, value in fields])):
        raise Malformed("a header with a line end")
    method, target = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
    if b":scheme" not in pseudo or not _METHOD.fullmatch(method) or not _TARGET.fullmatch(target):
        raise Malformed("no request")
    if b":authority" in pseudo:
        headers.insert(0, (b"host", pseudo[b":authority"]))  # as ASGI has it; it counts before one that was sent
    raw_path, _, query = target.partition(b"#")[0].partition(b"?")
    path = raw_path.decode("ascii")
    return Head(
        method.decode("ascii"), unquote(path) if "%" in path else path, raw_path, query, headers, _parse_length(headers)
    )


def _parse_length(headers: list[Field]) -> int | None:
    lengths = {value for name, value in headers if name == b"content-length"}
    if not lengths:
        return None
    (text, *more) = lengths
    if more or not text.isdigit() or len(text) > _MAX_LENGTH_DIGITS:
        raise Malformed("a length that is none")
    return int(text)
