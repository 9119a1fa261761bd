"""Make the responses that change only with the served resources, each identified by a hash of its content."""

from hashlib import sha256
from typing import Any

import msgspec

JSON = "application/json"


class StaticAnswer(msgspec.Struct, frozen=True):
    """An encoded document, with the data that a client needs to cache it.

    hash: the SHA-256 of the body in hexadecimal, which is the same in every process.
    """

    body: bytes
    content_type: str
    hash: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which a client caches the response and revalidates it."""
        return {"etag": f'"{self.hash}"', "vary": "Accept", "cache-control": "public"}


def static_answer(document: Any, content_type: str = JSON) -> StaticAnswer:
    """Return the response that contains a document as JSON."""
    return static_bytes(msgspec.json.encode(document), content_type)


def static_bytes(body: bytes, content_type: str) -> StaticAnswer:
    """Return the response that contains an encoded body."""
    return StaticAnswer(body, content_type, sha256(body).hexdigest().upper())


def parse_accept(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types of an Accept header with their parameters, the most preferred type first."""
    ranges = []
    for clause in accept.split(",", _MAX_CLAUSES)[:_MAX_CLAUSES]:
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        ranges.append((media_type.lower() or "*/*", values))
    return sorted(ranges, key=lambda item: _parse_quality(item[1].get("q", "1")), reverse=True)


_MAX_CLAUSES = 32


def _parse_quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
