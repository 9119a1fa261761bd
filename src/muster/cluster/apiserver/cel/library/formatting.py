"""The function `format` of strings: `'%s has %d'.format([a, b])`."""

import re
from collections.abc import Callable
from typing import Any

from muster.cluster.apiserver.cel.library.times import show_duration, show_timestamp
from muster.cluster.apiserver.cel.values import CelError, Duration, Timestamp, TypeValue, UInt, extent, type_name

_CLAUSE = re.compile(r"%(?:\.(\d*))?(.?)", re.DOTALL)
_MOST_DIGITS = 1000
_DEFAULT_DIGITS = 6


def formatted(text: str, args: list[Any]) -> str:
    """Replace each clause of the text by the next item of the list.

    Raises:
        CelError: a clause is invalid, or an item is missing or has the wrong type.
        CostLimitError: the items are too large to write.
    """
    extent(args)  # raises if nested lists repeat so often that the result would be too large
    rest = iter(args)

    def clause(match: re.Match[str]) -> str:
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

    return _CLAUSE.sub(clause, text)


def _string(value: Any, _digits: int = 0) -> str:
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
            return _number(value)
        case bytes():
            return value.decode(errors="replace")
        case Timestamp():
            return show_timestamp(value)
        case Duration():
            return show_duration(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(map(_string, value))}]"
        case dict():
            pairs = sorted(f"{_string(key)}: {_string(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise _unfit("s", value)


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return str(int(value)) if value == int(value) and abs(value) < 1e21 else repr(value)


def _decimal(value: Any, _digits: int) -> str:
    if type(value) in (int, UInt):
        return str(int(value))
    raise _unfit("d", value)


def _fixed(value: Any, digits: int) -> str:
    if type(value) in (int, UInt, float):
        return f"{float(value):.{digits}f}" if abs(value) != float("inf") and value == value else _number(float(value))
    raise _unfit("f", value)


def _scientific(value: Any, digits: int) -> str:
    if type(value) in (int, UInt, float):
        return f"{float(value):.{digits}e}"
    raise _unfit("e", value)


def _in_base(letter: str) -> Callable[[Any, int], str]:
    def show(value: Any, _digits: int) -> str:
        if type(value) in (int, UInt) or (letter == "b" and type(value) is bool):
            return f"{int(value):{letter}}"
        if letter in "xX" and type(value) in (str, bytes):
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if letter == "X" else text
        raise _unfit(letter, value)

    return show


def _unfit(verb: str, value: Any) -> CelError:
    return CelError(f"error during formatting: %{verb} does not take a {type_name(value)}")


_VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    **{letter: _in_base(letter) for letter in "bxXo"},
}
