"""The parts of tables, encoded as JSON: column definitions, rows and metadata. The cells come from printers."""

from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from muster.api.kinds import Kind
from muster.api.meta import Struct
from muster.api.status import bad_request
from muster.cluster.apiserver.tables.printer import Printer
from muster.cluster.apiserver.tables.printers import printer_of

_INCLUDES = ("", "None", "Metadata", "Object")

_encoder = msgspec.json.Encoder()


class _Head(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class _Condition(Struct):
    type: str
    status: str
    reason: str
    message: str


class _Row(Struct):
    cells: list[Any]
    conditions: tuple[_Condition, ...] = ()
    object: msgspec.Raw | None


_head = msgspec.json.Decoder(_Head)


def require_include(include: str) -> None:
    """Raise `ApiError` (400) unless `include` is a value of the query parameter `includeObject`."""
    if include not in _INCLUDES:
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: "
            f"\"{include[:100]}\": must be 'Metadata', 'Object', 'None', or empty"
        )


def encode_columns(kind: Kind[Any], printer: Printer | None = None) -> bytes:
    """Return the `columnDefinitions` of a kind's tables. printer: the printer of the view; None for the kind's."""
    return _encode_columns(printer or printer_of(kind))


@lru_cache(maxsize=512)
def _encode_columns(printer: Printer) -> bytes:
    # Every member is written, as upstream does: old clients read an absent priority as something else.
    return _encoder.encode([
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in printer.columns
    ])  # fmt: skip


def encode_row(kind: Kind[Any], body: bytes, now: datetime, include: str = "", printer: Printer | None = None) -> bytes:
    """Return the row of an object.

    now: the current time, by which the row computes ages.
    include: the part of the object in the row: None, Metadata (also for "") or Object.
    printer: the printer of the view; None for the kind's.
    """
    printer = printer or printer_of(kind)
    obj = kind.decode(body) if printer.reads is None else kind.seen_as(printer.reads).decode(body)
    done = printer.completed(obj)
    conditions = (
        (_Condition(type="Completed", status="True", reason=done.reason, message=done.message),) if done else ()
    )
    return _encoder.encode(
        _Row(cells=printer.cells(obj, now), conditions=conditions, object=_select_object(body, include))
    )


def make_partial(body: bytes) -> bytes:
    """Return a PartialObjectMetadata with the metadata of an object."""
    metadata = bytes(_head.decode(body).metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}' % metadata


def _select_object(body: bytes, include: str) -> msgspec.Raw | None:
    if include == "None":
        return None
    return msgspec.Raw(body if include == "Object" else make_partial(body))
