"""Answers that depend on what is served and on nothing else: made once, told apart by a hash of their content."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class StaticAnswer:
    """A document and what a client needs to keep it.

    etag: the hash of the body, in quotes, as the ETag header has it.
    """

    body: bytes
    content_type: str
    etag: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer that a client may keep and ask about."""
        return {"Content-Type": self.content_type, "ETag": self.etag, "Vary": "Accept", "Cache-Control": "public"}


def static_answer(document: Any, content_type: str = JSON) -> StaticAnswer:
    """The document as an answer."""
    body = msgspec.json.encode(document)
    return StaticAnswer(body, content_type, f'"{sha256(body).hexdigest().upper()}"')


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
