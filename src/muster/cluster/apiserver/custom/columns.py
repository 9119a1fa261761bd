"""The printer columns of custom resources: the columns of the definition, or else the age."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from muster.api.server.apiextensions import CustomResourceColumnDefinition
from muster.cluster.apiserver.custom.jsonpath import Find, JsonPathError, compile_path, find_first
from muster.cluster.apiserver.tables.printer import NAME, Cells, Column, Printer, format_age

_Cell = str | int | float | bool | None

_AGE = CustomResourceColumnDefinition(
    name="Age", type="date", description="When the object was created.", json_path=".metadata.creationTimestamp"
)


def make_printer(columns: Sequence[CustomResourceColumnDefinition]) -> Printer:
    """Return the printer that renders a version's objects as table rows. Without columns, a row has name and age."""
    compiled = [
        (column, _find(column.json_path), _CELLS.get(column.type, _render_text)) for column in columns or (_AGE,)
    ]

    def cells(document: Any, now: datetime) -> Cells:
        name = (document.get("metadata") or {}).get("name", "")
        return [name, *(cell(find_first(find, document), now) for _, find, cell in compiled)]

    return Printer((NAME, *(_make_column(column) for column, _, _ in compiled)), cells)


def _make_column(column: CustomResourceColumnDefinition) -> Column:
    return Column(
        name=column.name,
        type=column.type,
        format=column.format,
        description=column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}",
        priority=column.priority,
    )


def _find(path: str) -> Find:
    try:
        return compile_path(path)
    except JsonPathError:
        return lambda _: iter(())  # as in upstream, a column with an invalid path is empty


def _render_text(value: Any, _now: datetime) -> _Cell:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _render_integer(value: Any, _now: datetime) -> _Cell:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _render_number(value: Any, _now: datetime) -> _Cell:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _render_boolean(value: Any, _now: datetime) -> _Cell:
    return value if isinstance(value, bool) else None


def _render_date(value: Any, now: datetime) -> _Cell:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    return format_age(moment, now) if moment.tzinfo is not None else "<invalid>"


_CELLS: dict[str, Callable[[Any, datetime], _Cell]] = {
    "integer": _render_integer,
    "number": _render_number,
    "boolean": _render_boolean,
    "date": _render_date,
}
