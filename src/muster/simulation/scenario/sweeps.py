"""Parse sweeps, such as `clusterQueues.team-a.nominalQuota.cpu=100..400:50`, into the values that they set. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import product
from math import prod

from msgspec import Struct

from muster.simulation.scenario.overlays import Overlay

Scalar = bool | int | float | str

# More variants are a mistake: each of them is simulated.
MOST_VALUES = 1000
_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>.+?)(?::(?P<step>.+))?")
_NUMBER = re.compile(r"(?P<number>[-+]?\d{1,18}(?:\.\d{1,18})?)(?P<unit>[A-Za-z]*)")
_FORM = "PATH=FROM..TO:STEP or PATH=VALUE,VALUE,..."
_WORDS: dict[str, Scalar] = {"true": True, "false": False}


class SweepError(ValueError):
    """The error of a text that is no valid sweep; it names the sweep, and says why."""


class Sweep(Struct, frozen=True):
    """The values that a simulation sets one path of a scenario to, one after the other."""

    path: str
    values: Sequence[Scalar]


def parse_sweep(text: str) -> Sweep:
    """Parse a sweep: a path, and a range with a step or a list of values.

    Raises:
        SweepError: the text is no sweep.
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
    """Return the values of a range with both of its ends; None if the text is no range. Raises `SweepError`.

    text: the whole sweep, for errors.
    """
    found = _RANGE.fullmatch(values)
    if found is None:
        return None
    parts = [_NUMBER.fullmatch((found[name] or "1").strip()) for name in ("low", "high", "step")]
    low, high, step = (None if part is None else Decimal(part["number"]) for part in parts)
    if low is None or high is None or step is None:
        raise SweepError(f"{text}: the ends and the step of a range are numbers, all with the same unit or none")
    units = {part["unit"] for part, number in zip(parts, (low, high, step), strict=True) if part and number}
    if found["step"] is None:
        units.discard("")
    if len(units) > 1:
        raise SweepError(f"{text}: the ends and the step of a range have different units: {', '.join(sorted(units))}")
    if step <= 0:
        raise SweepError(f"{text}: the step must be positive")
    if high < low:
        raise SweepError(f"{text}: the range ends before it begins")
    count = int((high - low) / step) + 1
    _require_few(text, count)
    unit = "".join(units)
    return [_parse_scalar(f"{low + step * number:f}{unit}") for number in range(count)]


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
    """Return the names and overlays of all combinations of the values of sweeps.

    Raises `SweepError` if a path is swept twice, or there are too many combinations.
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
