"""The function `format` of strings: `'%s has %d'.format([a, b])`."""

import re
from collections.abc import Callable
from typing import Any

from muster.cluster.apiserver.cel.library.times import show_duration, show_timestamp
from muster.cluster.apiserver.cel.values import (
    CelError,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    measure_extent,
    type_name,
)

_CLAUSE = re.compile(r"%(?:\.(\d*))?(.?)", re.DOTALL)
_MOST_DIGITS = 1000
_DEFAULT_DIGITS = 6


def format_text(text: str, args: list[Any]) -> str:
    """Return the text, with each clause such as `%s` or `%.2f` replaced by the next item of the list.

    Raises `CelError` if a clause is invalid, or an item is missing or has the wrong type, and `CostLimitError` if the
    items are too large to write.
    """
    measure_extent(args)  # raises if nested lists repeat so often that the result would be too large
    rest = iter(args)

    def replace_clause(match: re.Match[str]) -> str:
        precision, verb = match.groups()
        if verb == "%" and precision is None:
            return "%"
        if verb not in _VERBS:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
        digits = int(precision) if precision and len(precision) < 6 else _DEFAULT_DIGITS
        if digits > _MOST_DIGITS:
            raise CelError(f"precision {digits} is over {_MOST_DIGITS}")
        for value in rest:
            return _VERBS[verb](value, digits)
        raise CelError(f"index {len(args)} out of range")

    return _CLAUSE.sub(replace_clause, text)


def _format_string(value: Any, _digits: int = 0) -> str:
    """Return a value as `%s` prints it. Items of lists and maps are printed in the same way."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(int(value))
        case float():
            return _format_number(value)
        case bytes():
            return value.decode(errors="replace")
        case Timestamp():
            return show_timestamp(value)
        case Duration():
            return show_duration(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(map(_format_string, value))}]"
        case dict():
            pairs = sorted(f"{_format_string(key)}: {_format_string(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise _make_unfit_error("s", value)


def _format_number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return str(int(value)) if value == int(value) and abs(value) < 1e21 else repr(value)


def _format_decimal(value: Any, _digits: int) -> str:
    if type(value) in (int, UInt):
        return str(int(value))
    raise _make_unfit_error("d", value)


def _format_fixed(value: Any, digits: int) -> str:
    if type(value) in (int, UInt, float):
        return (
            f"{float(value):.{digits}f}"
            if abs(value) != float("inf") and value == value
            else _format_number(float(value))
        )
    raise _make_unfit_error("f", value)


def _format_scientific(value: Any, digits: int) -> str:
    if type(value) in (int, UInt, float):
        return f"{float(value):.{digits}e}"
    raise _make_unfit_error("e", value)


def _make_base_format(letter: str) -> Callable[[Any, int], str]:
    def show(value: Any, _digits: int) -> str:
        if type(value) in (int, UInt) or (letter == "b" and type(value) is bool):
            return f"{int(value):{letter}}"
        if letter in "xX" and type(value) in (str, bytes):
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if letter == "X" else text
        raise _make_unfit_error(letter, value)

    return show


def _make_unfit_error(verb: str, value: Any) -> CelError:
    return CelError(f"error during formatting: %{verb} does not take a {type_name(value)}")


_VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": _format_string,
    "d": _format_decimal,
    "f": _format_fixed,
    "e": _format_scientific,
    **{letter: _make_base_format(letter) for letter in "bxXo"},
}
