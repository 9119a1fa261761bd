"""The values of CEL expressions as Python values, their errors, and their comparison.

JSON values represent themselves: `dict` is a map, `list` a list, `int` (at most 64 bits) an int, `float` a double and
`None` null. This module has a small type for each CEL type that JSON lacks. Values are compared with `equals`, because
`True == 1` holds in Python and not in CEL.
"""

import math
from typing import Any, Final

from msgspec import Struct

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1
# Upstream's limit of the cost of one expression.
CALL_LIMIT: Final = 1_000_000


class CelError(Exception):
    """An expression without a value for its variables. `&&` and `||` may absorb this error."""


class CostLimitError(Exception):
    """An expression that would take too much time or memory. No operator absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class UInt(int):
    """An unsigned integer of 64 bits, CEL's uint."""


class Timestamp(Struct, frozen=True, order=True):
    """A point in time, in nanoseconds since 1970."""

    nanos: int


class Duration(Struct, frozen=True, order=True):
    """A length of time in nanoseconds."""

    nanos: int


class TypeValue(Struct, frozen=True):
    """A type as a value: the result of `type(x)`, and the value of names such as `int` and `string`."""

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
    """Return the CEL name of the type of a value."""
    return _TYPE_NAMES.get(type(value)) or str(type(value).cel_name)


_SIZED = frozenset((str, bytes, list, dict))
_MOST_EXTENT = 1_572_864  # the most bytes that a stored document has
TYPES: Final = {name: TypeValue(name) for name in _TYPE_NAMES.values()}


def make_sentence(value: Any) -> str:
    """Return the result of a message expression, stripped; "" unless it is one line of at most 5,120 characters.

    The rule is upstream's.
    """
    usable = isinstance(value, str) and "\n" not in value and len(value) <= _MAX_MESSAGE
    return str(value).strip() if usable else ""


def make_overload_error(function: str, *args: Any) -> CelError:
    """Return the error of a function that does not take values of these types."""
    shown = ", ".join(type_name(arg) for arg in args)
    return CelError(f"no such overload: {function}({shown})" if args else "no such overload")


def is_number(value: Any) -> bool:
    """Return whether the value is an int, a uint or a double. A bool is no number."""
    return type(value) in _NUMBERS


def measure_extent(value: Any) -> int:
    """Return how many characters and elements a value has, at any depth.

    A short expression can nest one list in others many times, and so create a value that is too large to walk.

    Raises `CostLimitError` if the value is larger than any stored document.
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
    """Return CEL's `a == b`. Values of different types differ, except numbers, which are compared by value."""
    return bool(a == b) and is_alike(a, b)


def is_alike(a: Any, b: Any) -> bool:
    """Return whether two values that are equal in Python are equal in CEL too: a bool equals no number, at any depth.

    a, b: values for which Python's `a == b` holds.
    """
    kind, other = type(a), type(b)
    if kind is dict:
        return all(is_alike(value, b[key]) for key, value in a.items())
    if kind is list:
        return all(is_alike(x, y) for x, y in zip(a, b, strict=True))
    return kind is other or (kind in _NUMBERS and other in _NUMBERS)


def is_less(a: Any, b: Any) -> bool:
    """Return CEL's `a < b`. Raises `CelError` if the values have no order."""
    kind, other = type(a), type(b)
    if kind is not other and not (kind in _NUMBERS and other in _NUMBERS):
        raise make_overload_error("_<_", a, b)
    try:
        return bool(a < b)
    except TypeError:
        raise make_overload_error("_<_", a, b) from None


def int_of(value: int) -> int:
    """Return the number. Raises `CelError` if an int of 64 bits cannot hold it."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def uint_of(value: int) -> UInt:
    """Return the number as a uint. Raises `CelError` if a uint of 64 bits cannot hold it."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise CelError("unsigned integer overflow")


def truncate_double(value: float) -> int:
    """Return the double without its fraction. Raises `CelError` if the double is infinite or not a number."""
    if math.isnan(value) or math.isinf(value):
        raise CelError("range error")
    return int(value)
