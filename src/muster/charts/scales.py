"""Map values to positions on axes, and choose the round values at which axes have labels."""

from math import ceil, floor, log10

from msgspec import Struct

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_TIME_STEPS = (
    *(1, 5, 10, 15, 30, _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR),
    *(6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY, 182 * _DAY, 364 * _DAY),
)
# The most steps of an axis of values, and of an axis of times.
_VALUE_STEPS, _MOST_TIME_STEPS = 4, 8
# Spans of a logarithmic axis, which people know.
_ROUND_SPANS = (1, 10, _MINUTE, 10 * _MINUTE, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY)


class Tick(Struct, frozen=True):
    """A label of an axis.

    at: its position on the axis, from 0 to 1.
    minor: whether a narrow page hides the label.
    """

    at: float
    label: str
    minor: bool = False


def list_value_ticks(most: float) -> list[float]:
    """Return round, evenly spaced values from 0 to at least `most`."""
    if most <= 0:
        return [0.0, 1.0]
    step = 10.0 ** floor(log10(most / _VALUE_STEPS))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10, 20) if step * factor * _VALUE_STEPS >= most * 0.999999)
    return [step * number for number in range(ceil(most / step - 1e-9) + 1)]


def list_time_ticks(seconds: float) -> list[Tick]:
    """Return the labels of a time axis from 0 to `seconds`; every other label is minor.

    The result is empty for an axis without length.
    """
    if seconds <= 0:
        return []
    step = find_time_step(seconds, _MOST_TIME_STEPS)
    times = [step * number for number in range(int(seconds / step) + 1)]
    return [Tick(time / seconds, format_span(time), minor=number % 2 == 1) for number, time in enumerate(times)]


def find_time_step(seconds: float, count: int) -> float:
    """Return the shortest round time span, in seconds, that fits at most `count` times into `seconds`."""
    step: float = next((one for one in _TIME_STEPS if seconds / one <= count), _TIME_STEPS[-1])
    while seconds / step > count:
        step *= 2
    return step


def place_log(value: float, most: float) -> float:
    """Return the position, from 0 to 1, of a time span on a logarithmic axis from 1 s to `most`.

    A span below 1 s counts as 1 s.
    """
    return min(1.0, log10(max(value, 1.0)) / log10(max(most, 10.0)))


def list_log_ticks(most: float) -> list[Tick]:
    """Return the labels of a logarithmic axis of time spans from 1 s to `most` seconds."""
    spans = [one for one in _ROUND_SPANS if one <= max(most, 10.0)]
    return [
        Tick(place_log(one, most), "≤1s" if one == 1 else format_span(one), minor=number % 2 == 1)
        for number, one in enumerate(spans)
    ]


def format_span(seconds: float) -> str:
    """Format a time span in its two largest units: `3d4h`, `2m5s`; below 10 s, in tenths: `0.3s`."""
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE), ("s", 1)):
        number, rest = divmod(rest, size)
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
    return "".join(parts[:2])


def format_value(value: float) -> str:
    """Format a number in a few characters: `0.25`, `37`, `1.2k`, `3.4M`."""
    if value < 0:
        return f"-{format_value(-value)}"
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{_shorten(value / size)}{unit}"
    return _shorten(value)


def _shorten(value: float) -> str:
    if value < 1:
        return f"{value:.2g}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
