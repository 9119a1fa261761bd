"""Answers that depend on what is served and on nothing else: made once, told apart by a hash of their content."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class StaticAnswer:
    """A document and what a client needs to keep it.

    hash: of the body; the same for the same content, in whatever process.
    """

    body: bytes
    content_type: str
    hash: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which a client keeps the answer and asks whether it is still good."""
        return {"etag": f'"{self.hash}"', "vary": "Accept", "cache-control": "public"}


def static_answer(document: Any, content_type: str = JSON) -> StaticAnswer:
    """The document as an answer."""
    return static_bytes(msgspec.json.encode(document), content_type)


def static_bytes(body: bytes, content_type: str) -> StaticAnswer:
    """The same, of a body that is encoded already."""
    return StaticAnswer(body, content_type, sha256(body).hexdigest().upper())


def accepted(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, in the order of preference that it states."""
    ranges = []
    for clause in accept.split(",", _MAX_CLAUSES)[:_MAX_CLAUSES]:
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        ranges.append((media_type.lower() or "*/*", values))
    return sorted(ranges, key=lambda item: _quality(item[1].get("q", "1")), reverse=True)


_MAX_CLAUSES = 32


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
