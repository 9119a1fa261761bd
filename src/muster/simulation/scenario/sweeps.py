"""Parse sweeps, such as `clusterQueues.team-a.nominalQuota.cpu=100..400:50`, into values to set. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from itertools import product
from math import prod

from msgspec import Struct

from muster.api.values.quantity import parse
from muster.simulation.scenario.draws import parse_seconds
from muster.simulation.scenario.overlays import Overlay

Scalar = bool | int | float | str

# The maximum number of variants; more are probably a mistake, since each of them is simulated.
MOST_VALUES = 1000
_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>.+?)(?::(?P<step>.+))?")
_NUMBER = re.compile(r"(?P<number>[-+]?\d{1,18}(?:\.\d{1,18})?)(?P<unit>[A-Za-z]*)")
_FORM = "PATH=FROM..TO:STEP or PATH=VALUE,VALUE,..."
# The units that a range may mix. `m` means minutes here, not thousandths.
_TIMES, _AMOUNTS = ("ms", "s", "m", "h", "d"), ("k", "Ki", "M", "Mi", "G", "Gi", "T", "Ti", "P", "Pi")
_FAMILIES = (_TIMES, _AMOUNTS)
_WORDS: dict[str, Scalar] = {"true": True, "false": False}


class SweepError(ValueError):
    """A text that is not a valid sweep. The message contains the sweep and the reason."""


class Sweep(Struct, frozen=True):
    """The values to which a simulation sets one path of a scenario, one by one."""

    path: str
    values: Sequence[Scalar]


def parse_sweep(text: str) -> Sweep:
    """Parse a sweep: a path, and a range with a step, or a list of values.

    Raises `SweepError` if the text is not a valid sweep.
    """
    path, found, values = text.partition("=")
    if not path.strip() or not found or not values.strip():
        raise SweepError(f"{text!r} is not like {_FORM}")
    swept = _parse_range(text, values.strip())
    if swept is None:
        swept = [_parse_scalar(value.strip()) for value in values.split(",")]
    if "" in swept:
        raise SweepError(f"{text}: a value is empty")
    _require_few(text, len(swept))
    if len({*map(str, swept)}) < len(swept):
        raise SweepError(f"{text}: a value is given twice")
    return Sweep(path.strip(), swept)


def _parse_range(text: str, values: str) -> list[Scalar] | None:
    """Return the values of a range, including both ends; None if the text is not a range. Raises `SweepError`.

    text: the whole sweep, for errors.
    """
    found = _RANGE.fullmatch(values)
    if found is None:
        return None
    parts = [_NUMBER.fullmatch((found[name] or "1").strip()) for name in ("low", "high", "step")]
    amounts = [(Decimal(part["number"]), part["unit"]) for part in parts if part is not None]
    if len(amounts) < len(parts):
        raise SweepError(f"{text}: the ends and the step of a range are numbers, all with units or none")
    units = {unit for number, unit in amounts if number}
    if found["step"] is None:
        units.discard("")
    finest = _find_finest(text, units)
    # 0 is the same in all units, so its unit may be any word
    low, high, step = (number and number * _find_scale(unit or finest, finest) for number, unit in amounts)
    if step <= 0:
        raise SweepError(f"{text}: the step must be positive")
    if high < low:
        raise SweepError(f"{text}: the range ends before it begins")
    count = int((high - low) / step) + 1
    _require_few(text, count)
    return [_parse_scalar(f"{(low + step * number).normalize():f}{finest}") for number in range(count)]


def _find_finest(text: str, units: AbstractSet[str]) -> str:
    """Return the smallest unit of a range, in which its values are written; "" without a unit.

    text: the whole sweep, for errors.

    Raises `SweepError` if the units are not all units of time, or all suffixes of amounts.
    """
    if len(units) > 1 and not any(units <= {*family} for family in _FAMILIES):
        listed = ", ".join(unit or "none" for unit in sorted(units))
        raise SweepError(f"{text}: the ends and the step of a range have different units: {listed}")
    return min(units, key=_parse_unit) if len(units) > 1 else "".join(units)


def _find_scale(unit: str, other: str) -> Decimal:
    """Return how many of the other unit are in one `unit`."""
    return Decimal(1) if unit == other else _parse_unit(unit) / _parse_unit(other)


def _parse_unit(unit: str) -> Decimal:
    """Return a unit of time in seconds, or the factor of an amount's suffix."""
    return Decimal(str(parse_seconds(f"1{unit}"))) if unit in _TIMES else Decimal(int(parse(f"1{unit}")))


def _require_few(text: str, count: int) -> None:
    if count > MOST_VALUES:
        raise SweepError(f"{text}: has {count:,} values, and {MOST_VALUES:,} are the most")


def _parse_scalar(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    found = _NUMBER.fullmatch(text)
    if found is None or found["unit"]:
        return text
    return float(text) if "." in text else int(text)


def list_grid(sweeps: Sequence[Sweep]) -> Iterator[tuple[str, Overlay]]:
    """Yield the names and overlays of all combinations of the values of sweeps.

    Raises `SweepError` if a path is swept twice, or if there are too many combinations.
    """
    paths = [one.path for one in sweeps]
    if twice := next((path for at, path in enumerate(paths) if path in paths[:at]), None):
        raise SweepError(f"{twice}: is swept twice")
    _require_few(" and ".join(paths), prod(len(one.values) for one in sweeps))
    return _combine(paths, product(*(one.values for one in sweeps)))


def _combine(paths: Sequence[str], grid: Iterable[Sequence[Scalar]]) -> Iterator[tuple[str, Overlay]]:
    for values in grid:
        settings = dict(zip(paths, values, strict=True))
        name = ", ".join(f"{path}={value}" for path, value in settings.items())
        yield name, Overlay(f"--sweep {name}", settings=settings)
