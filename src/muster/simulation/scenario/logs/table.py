"""Read tables (CSV) of jobs and of nodes, line by line."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from muster.simulation.scenario.logs.cells import (
    CellError,
    Number,
    Row,
    Text,
    columns_of,
    compile_amount,
    compile_number,
    compile_seconds,
    compile_text,
    find_wrong_unit,
    parse_time,
)
from muster.simulation.scenario.logs.jobs import MOST, FormError, LeftOut, LogError, Role, TracedJob
from muster.simulation.scenario.model import Cell, ComputedColumn, JobColumns, NodeColumns
from muster.simulation.scenario.source import suggest

_Amounts = tuple[tuple[str, int], ...]

# The maximum number of seconds by which a job may end before it starts, because a clock in local time was set back.
_CLOCK_CHANGE = 3600.0
# The maximum length of a header line; other lines may be longer.
_LONGEST = 400
# The maximum number of cached roles, which equal jobs share.
_MOST_ROLES = 50_000
_TIMES = ("submit", "run_time", "limit")
# Fields whose cells are numbers.
_NUMBERS = (*_TIMES, "pods", "gang", "priority", "requests", "allocatable")
# The line in which some spreadsheets name the delimiter of the following lines.
_DELIMITER_LINE = re.compile(r'sep=([^\w"\r\n])\s*', re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"^(\s*[-+]?\d+),(\d+(?:E[-+]?\d+)?\s*)$", re.IGNORECASE)


class ColumnError(ValueError):
    """An invalid column in a scenario.

    field: the name of the field in `columns`; "" if a required field is not set.
    why: the reason, for users.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class NodeRow(Struct, frozen=True):
    """A node of a table.

    line: the number of its line, from 1.
    labels: the labels that are set.
    """

    line: int
    name: str
    allocatable: _Amounts
    labels: tuple[tuple[str, str], ...]


def check_columns(columns: JobColumns | NodeColumns, needed: Sequence[str]) -> None:
    """Raise `ColumnError` if a required field is not set, or if a column has an invalid unit."""
    for field in needed:
        if getattr(columns, field) is None:
            raise ColumnError("", f"{_spell(field)} is needed")
    for field, cell in _list_cells(columns):
        if why := find_wrong_unit(cell, of_time=field in _TIMES):
            raise ColumnError(_spell(field), why)


def _list_cells(columns: JobColumns | NodeColumns) -> Iterator[tuple[str, Cell]]:
    for field, cell in asdict(columns).items():
        if isinstance(cell, dict):
            yield from ((f"{field}.{key}", one) for key, one in cell.items())
        elif cell is not None:
            yield field, cell


def _spell(field: str) -> str:
    """Return a Python field name as spelled in a scenario: `runTime` for `run_time`."""
    first, _, rest = field.partition(".")
    words = first.split("_")
    return "".join((words[0], *(word.capitalize() for word in words[1:]))) + (f".{rest}" if rest else "")


def read_jobs(
    lines: Iterable[str],
    columns: JobColumns,
    header: Sequence[str],
    origin: str | float | None,
    left_out: LeftOut,
    step_column: str = "",
    *,
    quoted: bool = True,
    optional: Mapping[str, Cell] = {},
) -> Iterator[TracedJob]:
    """Yield the jobs of a table that ran, in the order of its lines; `left_out` counts the others.

    header: the names of the columns, if the table has no header line.
    origin: the time of the log at which the simulation starts; None for the first submission.
    step_column: the column that has a dot in the lines of job steps, which are skipped.
    quoted: whether quotes around a cell are removed.
    optional: the requests of a pod, by resource, from columns that the table may lack.
    Raises `LogError` if a line or the header is invalid, or a job was submitted before `origin`.
    """
    table = _Table(lines, columns, header, quoted=quoted)
    step_place = table.places.get(step_column)
    there = {resource: cell for resource, cell in optional.items() if table.places.keys() >= {*columns_of(cell)}}
    if there:
        columns = replace(columns, requests={**(columns.requests or {}), **there})
    read = _compile_jobs(columns, table.places)
    start = None if origin is None else parse_time(str(origin))
    for row in table:
        if step_place is not None and "." in row[step_place]:
            continue
        try:
            job = read(table.line, row)
        except CellError as error:
            raise LogError(table.line, str(error)) from None
        if job is None:
            left_out.jobs += 1
        elif start is not None and job.submit < start:
            column = columns_of(columns.submit or "")[0]
            raise LogError(table.line, f"{column}: was submitted before the start, {origin}")
        else:
            yield job


class _Table:
    """The rows of a table after its header.

    line: the number of the last line of the current row.
    """

    def __init__(
        self, lines: Iterable[str], columns: JobColumns | NodeColumns, header: Sequence[str], *, quoted: bool = True
    ) -> None:
        names = [name for _, cell in _list_cells(columns) for name in columns_of(cell)]
        lines = iter(lines)
        top = list(islice(lines, 1))
        named = _DELIMITER_LINE.fullmatch("".join(top))
        delimiter = named[1] if named is not None else _find_delimiter(top, names, header)
        self._reader = csv.reader(
            chain(top, lines),
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            strict=True,
        )
        if named is not None:
            self._take()
        first = self._take()
        if first is None:
            raise FormError(1, "the table is empty")
        stripped = [name.strip() for name in first]
        self._held: list[str] | None = None
        if header and not set(names) <= set(stripped):
            stripped, self._held = list(header), first
        for name in names:
            if name not in stripped:
                raise FormError(self.line, f"there is no column {name}{suggest(name, stripped)}"[:_LONGEST])
            if stripped.count(name) > 1:
                raise FormError(self.line, f"there are {stripped.count(name)} columns {name}")
        self.places = {name: place for place, name in enumerate(stripped)}
        self._numbers = _list_numbers(columns, self.places) if delimiter == ";" else []
        self._width = len(stripped)

    @property
    def line(self) -> int:
        return self._reader.line_num

    def _take(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise LogError(self._reader.line_num, str(error)) from None

    def __iter__(self) -> Iterator[Row]:
        row, self._held = self._held, None
        while (row := row if row is not None else self._take()) is not None:
            if any(map(str.strip, row)):  # otherwise it is an empty line, which spreadsheets may fill with delimiters
                if len(row) != self._width:
                    raise LogError(self.line, f"has {len(row)} fields instead of {self._width}")
                for place in self._numbers:
                    row[place] = _DECIMAL_COMMA.sub(r"\1.\2", row[place])
                yield row
            row = None


def _find_delimiter(top: Sequence[str], names: Iterable[str], header: Sequence[str]) -> str:
    """Return the delimiter of a table's cells: a semicolon, tab or bar if the first line then matches, else a comma.

    top: the first line, if there is one.
    names: the columns that the line must contain, unless `header` is given.
    Spreadsheets write semicolons where the comma is the decimal separator, so a line may contain commas as well.
    """
    for delimiter in (";", "\t", "|"):
        try:
            cells = next(csv.reader(top, delimiter=delimiter), [])
        except csv.Error:
            continue  # the table then rejects the line
        if set(names) <= {cell.strip() for cell in cells} or len(cells) == len(header):
            return delimiter
    return ","


def _list_numbers(columns: JobColumns | NodeColumns, places: Mapping[str, int]) -> list[int]:
    """Return the indexes of the columns that are parsed as numbers."""
    cells = (cell for field, cell in _list_cells(columns) if field.partition(".")[0] in _NUMBERS)
    return sorted({places[name] for cell in cells for name in columns_of(cell)})


def _compile_jobs(columns: JobColumns, places: Mapping[str, int]) -> Callable[[int, Row], TracedJob | None]:
    """Return a function that returns the job of a row, given the line's number.

    The function returns None if the job has no run time, or one that a change of the clock may have made negative. It
    raises `CellError` for an invalid cell.
    """
    assert columns.submit is not None and columns.run_time is not None, "they are needed"  # noqa: PT018
    submit, run_time = compile_seconds(columns.submit, places), compile_seconds(columns.run_time, places)
    limit = compile_seconds(columns.limit, places) if columns.limit is not None else None
    gang, priority = _compile_whole(columns.gang, places), _compile_whole(columns.priority, places)
    queue, user, name = (_compile_text(cell, places) for cell in (columns.queue, columns.user, columns.id))
    roles = _Roles(columns, places)
    priority_column = columns_of(columns.priority)[0] if columns.priority is not None else ""
    of_clock = isinstance(columns.run_time, ComputedColumn) and columns.run_time.minus is not None
    times = {field: columns_of(cell)[0] for field in _TIMES if (cell := getattr(columns, field)) is not None}

    def read(line: int, row: Row) -> TracedJob | None:
        seconds = run_time(row)
        if seconds is None or (of_clock and -_CLOCK_CHANGE <= seconds < 0):
            return None
        at = submit(row)
        if at is None:
            raise CellError(times["submit"], "is empty")
        most = limit(row) if limit is not None else None
        for field, value in (("submit", at), ("run_time", seconds), ("limit", most or 0.0)):
            if value < 0:
                raise CellError(times[field], f"a time of {value:g} s is negative")
        first, level = gang(row), priority(row)
        if level is not None and abs(level) >= MOST:
            raise CellError(priority_column, f"{level:g} is no priority, which has 32 bits")
        role = roles.read(row)
        return TracedJob(
            at,
            seconds,
            name(row) or str(line),
            role,
            most or None,
            queue(row),
            user(row),
            None if level is None else round(level),
            None if first is None else max(1, min(round(first), role[0].pods)),
        )

    return read


def _compile_whole(cell: Cell | None, places: Mapping[str, int]) -> Number:
    """Return a function that computes an integer from a row; it returns None for a missing cell or without a column.

    The function raises `CellError` for a number that is not an integer.
    """
    if cell is None:
        return lambda _: None
    number, column = compile_number(cell, places), columns_of(cell)[0]

    def compute(row: Row) -> float | None:
        value = number(row)
        if value is not None and not value.is_integer():
            raise CellError(column, f"{value:g} is no whole number")
        return value

    return compute


def _compile_text(cell: Cell | None, places: Mapping[str, int]) -> Text:
    return compile_text(cell, places) if cell is not None else lambda _: ""


class _Roles:
    """A parser of the pods of jobs in a table. Equal jobs share the result."""

    def __init__(self, columns: JobColumns, places: Mapping[str, int]) -> None:
        cells = [columns.pods, *(columns.requests or {}).values(), *(columns.node_selector or {}).values()]
        self._places = [places[name] for cell in cells if cell is not None for name in columns_of(cell)]
        self._pods = compile_number(columns.pods, places) if columns.pods is not None else None
        self._pods_column = columns_of(columns.pods)[0] if columns.pods is not None else ""
        requests = columns.requests
        self._requests = None if requests is None else _compile_amounts(requests, places)
        self._labels = [
            (label, compile_text(cell, places), cell.separator if isinstance(cell, ComputedColumn) else "")
            for label, cell in (columns.node_selector or {}).items()
        ]
        self._known: dict[tuple[str, ...], tuple[Role]] = {}

    def read(self, row: Row) -> tuple[Role]:
        key = tuple([row[place] for place in self._places])
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_ROLES:
                self._known.clear()
            known = self._known[key] = (self._read(row),)
        return known

    def _read(self, row: Row) -> Role:
        pods = 1.0
        if self._pods is not None:
            pods = self._pods(row) or 0.0
            if pods != round(pods) or not 1 <= pods <= MOST:
                raise CellError(self._pods_column, f"{pods:g} is no number of pods")
        labels: list[tuple[str, tuple[str, ...]]] = []
        for label, text, separator in self._labels:
            if value := text(row):
                labels.append((label, tuple(value.split(separator)) if separator else (value,)))
        requests = None if self._requests is None else self._requests(row)
        return Role(round(pods), requests, tuple(labels))


def _compile_amounts(cells: Mapping[str, Cell], places: Mapping[str, int]) -> Callable[[Row], _Amounts]:
    amounts = [(resource, compile_amount(resource, cell, places)) for resource, cell in sorted(cells.items())]

    def read(row: Row) -> _Amounts:
        values = ((resource, compute(row)) for resource, compute in amounts)
        return tuple((resource, int(value)) for resource, value in values if value)

    return read


def read_nodes(lines: Iterable[str], columns: NodeColumns, header: Sequence[str]) -> Iterator[NodeRow]:
    """Yield the nodes of a table.

    header: the names of the columns, if the table has no header line.
    Raises `LogError` if a line or its header is invalid.
    """
    table = _Table(lines, columns, header)
    assert columns.name is not None, "it is needed"
    name, amounts = compile_text(columns.name, table.places), _compile_amounts(columns.allocatable or {}, table.places)
    labels = [(label, compile_text(cell, table.places)) for label, cell in (columns.labels or {}).items()]
    for row in table:
        try:
            allocatable = amounts(row)
        except CellError as error:
            raise LogError(table.line, str(error)) from None
        yield NodeRow(
            table.line, name(row), allocatable, tuple((label, value) for label, text in labels if (value := text(row)))
        )


def merge_columns(base: Any, more: Any) -> Any:
    """Return the columns `base` of a known format, overridden by the columns that are set in `more`."""
    changed = {field: value for field, value in asdict(more).items() if value is not None}
    return type(base)(**(asdict(base) | changed))
