"""What CEL expressions compute with, as Python values.

JSON stands for itself: `dict` is a map, `list` a list, `int` (never over 64 bits) an int, `float` a double, `None`
null. What JSON lacks has a small type here. Python holds `True == 1`; CEL does not: compare with `equals`.
"""

import math
from typing import Any, Final

from msgspec import Struct

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1


class CelError(Exception):
    """An expression has no value for what it was given. `&&` and `||` may absorb it."""


class CostLimitError(Exception):
    """An expression would take too long, or too much memory. Nothing absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class UInt(int):
    """CEL's uint."""


class Timestamp(Struct, frozen=True, order=True):
    """A point in time, in nanoseconds since 1970."""

    nanos: int


class Duration(Struct, frozen=True, order=True):
    """A length of time in nanoseconds."""

    nanos: int


class TypeValue(Struct, frozen=True):
    """What `type(x)` is, and `int`, `string`, ... as values."""

    name: str


class Optional(Struct, frozen=True):
    """A value that may be missing."""

    present: bool
    value: Any = None


NONE: Final = Optional(False)

_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
}
_MAX_MESSAGE = 5 * 1024  # characters
_NUMBERS = frozenset((int, UInt, float))


def type_name(value: Any) -> str:
    """The value's type as CEL spells it."""
    return _TYPE_NAMES.get(type(value)) or str(type(value).cel_name)


_SIZED = frozenset((str, bytes, list, dict))
_MOST_EXTENT = 1_572_864  # no stored document has more bytes
TYPES: Final = {name: TypeValue(name) for name in _TYPE_NAMES.values()}


def sentence(value: Any) -> str:
    """The text of a message that an expression has made; "" if it is none that can be shown, as upstream has it."""
    usable = isinstance(value, str) and "\n" not in value and len(value) <= _MAX_MESSAGE
    return str(value).strip() if usable else ""


def no_such_overload(function: str, *args: Any) -> CelError:
    """The function does not take values of these types."""
    shown = ", ".join(type_name(arg) for arg in args)
    return CelError(f"no such overload: {function}({shown})" if args else "no such overload")


def is_number(value: Any) -> bool:
    """Whether the value is an int, a uint or a double (a bool is not)."""
    return type(value) in _NUMBERS


def extent(value: Any) -> int:
    """How many characters and elements there are in a value, at any depth.

    Raises `CostLimitError` for more than any document has: one list can be in others again and again, so that a short
    expression makes what is too large to go over.
    """
    total, pending = 0, [value]
    while pending:
        item = pending.pop()
        kind = type(item)
        total += len(item) if kind in _SIZED else 1
        if total > _MOST_EXTENT:
            raise CostLimitError
        if kind is list:
            pending.extend(item)
        elif kind is dict:
            pending.extend(item.values())
    return total


def equals(a: Any, b: Any) -> bool:
    """CEL's `==`: values of different types differ, but for numbers, which are compared by value."""
    return bool(a == b) and alike(a, b)


def alike(a: Any, b: Any) -> bool:
    """Whether values that are equal to Python are so to CEL too: a bool is no number, at any depth."""
    kind, other = type(a), type(b)
    if kind is dict:
        return all(alike(value, b[key]) for key, value in a.items())
    if kind is list:
        return all(alike(x, y) for x, y in zip(a, b, strict=True))
    return kind is other or (kind in _NUMBERS and other in _NUMBERS)


def less(a: Any, b: Any) -> bool:
    """CEL's `<`. Raises `CelError` for values without an order."""
    kind, other = type(a), type(b)
    if kind is not other and not (kind in _NUMBERS and other in _NUMBERS):
        raise no_such_overload("_<_", a, b)
    try:
        return bool(a < b)
    except TypeError:
        raise no_such_overload("_<_", a, b) from None


def int_of(value: int) -> int:
    """The number, if an int can hold it."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def uint_of(value: int) -> UInt:
    """The number, if a uint can hold it."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise CelError("unsigned integer overflow")


def whole(value: float) -> int:
    """The double without its fraction. Raises `CelError` if there is no such number."""
    if math.isnan(value) or math.isinf(value):
        raise CelError("range error")
    return int(value)
