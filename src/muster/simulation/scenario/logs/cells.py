"""Compute values from the cells of a table's row, as the columns of a scenario define. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import ceil, isfinite

from muster.api.values.quantity import QuantityError, parse, parse_amount
from muster.simulation.scenario.model import Cell, ComputedColumn

Row = Sequence[str]
Number = Callable[[Row], float | None]
Text = Callable[[Row], str]

_MISSING = frozenset(("", "nan", "none", "null", "na", "n/a", "-"))
# `sacct` prints these words in place of a number or a time; but a queue or a user may have such a name.
_NO_NUMBERS = _MISSING | {"unknown", "unlimited", "partition_limit"}
# A duration in Slurm's format: `1-02:30:00`.
_SLURM_SPAN = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d(?:\.\d+)?)", re.ASCII)
# The requested memory as `sacct` writes it: of a node, of a CPU, or of the whole job since Slurm 21.08. It is in MiB
# without a suffix. The suffix `?` is a unit that `sacct` does not know, so the amount is unknown.
_SLURM_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP?]?)([nc]?)", re.ASCII | re.IGNORECASE)
# An amount as Slurm writes it in a list of pairs, such as `10G` of memory. Its suffixes are powers of 1024.
_SLURM_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP])", re.ASCII)
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
# Descriptions of what a cell of each kind should contain, for errors.
_NUMBER = "no number"
_MEMORY = "no amount of memory such as 4Gn, 2000Mc or 16G"
_TIME = "no number, span such as 1-02:30:00, or date and time such as 2026-03-29 13:30:00"
# An amount is rounded up, except for rounding errors of floating-point numbers.
_TOLERANCE = 1e-9
# The maximum amount of a resource; with more, sums would no longer fit into 64 bits.
MOST_AMOUNT = 1 << 52


class SlurmMemory(ComputedColumn, frozen=True):
    """The column of `sacct` with the requested memory of a job, from which the memory of each pod is computed.

    per: the column with the job's number of nodes.
    times: the column with the job's number of CPUs.
    """


class CellError(ValueError):
    """A cell of a table that cannot be parsed.

    column: the name of its column.
    why: the reason, for users.
    """

    def __init__(self, column: str, why: str) -> None:
        super().__init__(f"{column}: {why}")
        self.column = column
        self.why = why


def columns_of(cell: Cell) -> list[str]:
    """Return the names of the columns from which a cell's value is computed."""
    if isinstance(cell, str):
        return [cell]
    others = (cell.minus, cell.times, cell.per)
    return [cell.column, *(one for one in others if isinstance(one, str))]


def is_missing(text: str) -> bool:
    """Return whether a cell is empty or stands for a missing value."""
    return text.strip().lower() in _MISSING


def compile_text(cell: Cell, places: Mapping[str, int]) -> Text:
    """Return a function that returns the text of a cell in a row, or "" if it is missing.

    places: the index of each column.
    """
    column, key = (cell, "") if isinstance(cell, str) else (cell.column, cell.key)
    place = places[column]

    def read(row: Row) -> str:
        text = _find_pair(row[place], key) if key else row[place].strip()
        return "" if text.lower() in _MISSING else text

    return read


def compile_number(
    cell: Cell, places: Mapping[str, int], parse_cell: Callable[[str], float] = float, kind: str = _NUMBER
) -> Number:
    """Return a function that computes a number from a row; it returns None if a cell is missing.

    places: the index of each column.
    parse_cell: parses the text of a cell.
    kind: a description of what `parse_cell` accepts, for errors.
    The unit of the cell is not applied. The function raises `CellError` for text that `parse_cell` rejects.
    """
    if isinstance(cell, str):
        cell = ComputedColumn(column=cell)
    base = _compile_cell(cell.column, places, parse_cell, cell.values, kind, cell.key)
    if cell.minus is None and cell.times is None and cell.per is None:
        return base
    minus = _compile_cell(cell.minus, places, parse_cell, {}, kind) if cell.minus is not None else None
    times, per = _compile_factor(cell.times, places), _compile_factor(cell.per, places)
    name = cell.column

    def compute(row: Row) -> float | None:
        values = base(row), 0.0 if minus is None else minus(row), times(row), per(row)
        first, less, factor, divisor = values
        if first is None or less is None or factor is None or divisor is None:
            return None
        if divisor == 0:
            raise CellError(name, "would be divided by zero")
        return (first - less) * factor / divisor

    return compute


def _compile_cell(
    column: str,
    places: Mapping[str, int],
    parse_cell: Callable[[str], float],
    values: Mapping[str, float],
    kind: str = _NUMBER,
    key: str = "",
) -> Number:
    """Return a function that reads the number in a column of a row; None for an empty cell. It raises `CellError`.

    values: numbers for certain texts.
    key: the key whose value counts in a cell of pairs; "" if the cell has one value.
    """
    place = places[column]

    def read(row: Row) -> float | None:
        text = _find_pair(row[place], key) if key else row[place].strip()
        if text in values:
            return values[text]
        if text.lower() in _NO_NUMBERS:
            return None
        try:
            number = parse_cell(text)
        except ValueError:
            known = f", and none of {', '.join(values)}" if values else ""
            raise CellError(column, f"{text[:40]!r} is {kind}{known}") from None
        if not isfinite(number):
            raise CellError(column, f"{text[:40]} is too large")
        return number

    return read


def _find_pair(text: str, key: str) -> str:
    """Return the value of a key in a cell such as `cpu=4,gres/gpu=2`; "" if the cell does not contain the key."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return next((value.strip() for name, _, value in pairs if name.strip() == key), "")


def _compile_factor(factor: str | float | None, places: Mapping[str, int]) -> Number:
    if isinstance(factor, str):
        return _compile_cell(factor, places, float, {})
    constant = 1.0 if factor is None else float(factor)
    return lambda _: constant


def compile_seconds(cell: Cell, places: Mapping[str, int]) -> Number:
    """Return a function that computes a time in seconds from a row, from numbers with a unit, or dates and times.

    It returns None for a missing cell, and raises `CellError` for invalid text.
    """
    unit = _SECONDS[cell.unit if isinstance(cell, ComputedColumn) else ""]
    return compile_number(cell, places, lambda text: parse_time(text, unit), _TIME)


def parse_time(text: str, unit: float = 1.0) -> float:
    """Return a time in seconds, from a number in a unit, a duration in Slurm's format, or a date and time.

    unit: the number of seconds in the unit of a number.
    A date and time without a zone is in UTC. Raises `ValueError` for any other text.
    """
    try:
        return float(text) * unit
    except ValueError:
        if span := _SLURM_SPAN.fullmatch(text):
            days, hours, minutes, seconds = (float(part or 0) for part in span.groups())
            return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def compile_amount(resource: str, cell: Cell, places: Mapping[str, int]) -> Number:
    """Return a function that computes an amount of a resource from a row, in the unit of decisions, rounded up.

    It returns None for a missing cell, and raises `CellError` for invalid text and for a negative or too large amount.
    """
    if isinstance(cell, SlurmMemory):
        return _compile_slurm_memory(cell, places)
    suffix = cell.unit if isinstance(cell, ComputedColumn) else ""
    scale = float(parse(f"1{suffix}")) * parse_amount(resource, "1")
    of_pair = isinstance(cell, ComputedColumn) and cell.key and not suffix
    number = compile_number(cell, places, _parse_slurm_amount if of_pair else float)
    name = columns_of(cell)[0]

    def compute(row: Row) -> float | None:
        value = number(row)
        return None if value is None else _round_up(name, value * scale)

    return compute


def _round_up(column: str, amount: float) -> int:
    """Return an amount in the unit of decisions. Raises `CellError` if it is negative or too large."""
    whole = ceil(amount - _TOLERANCE)
    if not 0 <= whole < MOST_AMOUNT:
        raise CellError(column, f"an amount of {amount:g} is {'negative' if whole < 0 else 'too large'}")
    return whole


def _compile_slurm_memory(cell: SlurmMemory, places: Mapping[str, int]) -> Number:
    """Return a function that computes the requested memory of a pod in bytes from a row.

    It returns None if the row has no amount, or one in an unknown unit. It raises `CellError` for invalid text.
    """
    text, name = compile_text(cell.column, places), cell.column
    cpus, nodes = _compile_factor(cell.times, places), _compile_factor(cell.per, places)

    def compute(row: Row) -> float | None:
        written = text(row)
        if written.lower() in _NO_NUMBERS:
            return None
        if (amount := _SLURM_MEMORY.fullmatch(written)) is None:
            raise CellError(name, f"{written[:40]!r} is {_MEMORY}")
        number, unit, scope = amount.groups()
        if unit == "?":
            return None
        job_nodes = nodes(row) or 1.0
        # The amount is that of a node, of a CPU, or of the whole job.
        shares = {"n": 1.0, "c": (cpus(row) or 1.0) / job_nodes, "": 1.0 / job_nodes}
        return _round_up(name, float(parse(f"{number}{unit.upper() or 'M'}i")) * shares[scope.lower()])

    return compute


def _parse_slurm_amount(text: str) -> float:
    amount = _SLURM_AMOUNT.fullmatch(text)
    return float(text) if amount is None else float(parse(f"{amount[1]}{amount[2]}i"))


def find_wrong_unit(cell: Cell, *, of_time: bool) -> str:
    """Return why the unit of a cell is invalid; "" if it is valid.

    of_time: whether the cell's value is a time.
    """
    unit = cell.unit if isinstance(cell, ComputedColumn) else ""
    if of_time:
        return "" if unit in _SECONDS else f"{unit!r} is no unit of time, which are {', '.join(filter(None, _SECONDS))}"
    try:
        parse(f"1{unit}")
    except QuantityError:
        return f"{unit!r} is no suffix of amounts such as m, Ki, Mi, Gi"
    return ""
