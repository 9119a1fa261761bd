"""What a client accepts, and objects in that form: as they are, as rows of a table, or as their metadata alone.

All forms are JSON. A form is chosen by the `Accept` header (`application/json;as=Table;v=v1;g=meta.k8s.io`); clients
that would rather have protobuf say that they take JSON too.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal

import msgspec

from muster.api.meta import ListMeta
from muster.api.status import not_acceptable
from muster.cluster.apiserver import tables
from muster.cluster.apiserver.registry import Resource, View

_JSON_RANGES = ("application/json", "application/*", "*/*", "")
_MAX_CLAUSES = 32
# Big answers are made in pieces of so many objects, so that others get a turn in between.
_PIECE = 100
# Where the rows of an encoded table begin: nothing before them has a member of that name.
_ROWS = b'"rows":['

_encode = msgspec.json.encode
_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Form:
    """What objects are to look like. `version` is that of `meta.k8s.io`."""

    name: Literal["object", "table", "metadata"] = "object"
    version: str = "v1"


OBJECT = Form()


@lru_cache(maxsize=256)
def form_of(accept: str) -> Form:
    """The form that an Accept header asks for. Raises `ApiError` (406) if it names none that we have."""
    clauses = [clause.strip() for clause in accept.split(",", _MAX_CLAUSES)[:_MAX_CLAUSES]]
    for clause in sorted(clauses, key=_quality, reverse=True):
        form = _clause_form(clause)
        if form is not None:
            return form
    raise not_acceptable("only the following media types are accepted: application/json")


def _clause_form(clause: str) -> Form | None:
    media_type, *parameters = (part.strip() for part in clause.split(";"))
    if media_type.lower() not in _JSON_RANGES:
        return None
    values = dict(parameter.partition("=")[::2] for parameter in parameters)
    as_ = values.get("as")
    if as_ is None:
        return OBJECT
    version = values.get("v", "")
    if values.get("g") != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    if as_ == "Table":
        return Form("table", version)
    return Form("metadata", version) if as_ in ("PartialObjectMetadata", "PartialObjectMetadataList") else None


def _quality(clause: str) -> float:
    _, found, text = clause.partition("q=")
    try:
        return float(text.partition(";")[0]) if found else 1.0
    except ValueError:
        return 0.0


class Presentation:
    """Objects of one resource in one form."""

    def __init__(self, resource: Resource, view: View, form: Form, include: str, now: datetime) -> None:
        """`include` is what a table's rows carry of their objects. Raises `ApiError` (400) if it is no known word."""
        if form.name == "table":
            tables.require_include(include)
        self.resource = resource
        self.plain = form.name == "object" and view.show is None  # just the stored bytes
        self._view = view
        self._form = form
        self._include = include
        self._now = now

    def one(self, body: bytes, *, headers: bool = True) -> bytes:
        """An object by itself; `headers` as for tables."""
        if self.plain:
            return body
        if self._form.name == "table":
            version = msgspec.json.decode(body, type=_Versioned).metadata.resource_version
            return self._table([body], ListMeta(resource_version=version), headers=headers)
        if self._form.name == "metadata":
            return tables.partial(body, version=self._form.version)
        return self._shown(body)

    async def list(self, bodies: Sequence[bytes], meta: ListMeta) -> bytes:
        """Objects as a list."""
        if self.plain or len(bodies) <= _PIECE:
            return self._list(bodies, meta)
        answers = []
        for first in range(0, len(bodies), _PIECE):
            answers.append(self._list(bodies[first : first + _PIECE], meta))
            await asyncio.sleep(0)
        marker = _ROWS if self._form.name == "table" else b'"items":['
        start = answers[0].index(marker) + len(marker)
        return answers[0][:start] + b",".join([answer[start:-2] for answer in answers]) + b"]}"

    def joined(self, items: bytes, meta: ListMeta) -> bytes:
        """A list of plain objects that are already joined."""
        kind = self.resource.kind
        head = b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":['
        return b"".join((head % (kind.kind.encode(), kind.api_version.encode(), _encode(meta)), items, b"]}"))

    def _list(self, bodies: Sequence[bytes], meta: ListMeta) -> bytes:
        if self._form.name == "table":
            return self._table(bodies, meta)
        if self._form.name == "metadata":
            return tables.partial_list(bodies, metadata=meta, version=self._form.version)
        return self.joined(b",".join(bodies if self.plain else [self._shown(body) for body in bodies]), meta)

    def _table(self, bodies: Sequence[bytes], meta: ListMeta, *, headers: bool = True) -> bytes:
        shown = bodies if self._view.show is None else [self._shown(body) for body in bodies]
        return tables.table(
            self._view.kind,
            shown,
            now=self._now,
            metadata=meta,
            include=self._include,
            version=self._form.version,
            headers=headers,
        )

    def _shown(self, body: bytes) -> bytes:
        return body if self._view.show is None else _encode(self._view.show(_decoder.decode(body)))


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Version
