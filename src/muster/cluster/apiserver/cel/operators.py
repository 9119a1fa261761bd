"""The operators of CEL as functions of values.

An operator takes the values of its operands and returns the result. It raises `CelError` if there is no result, for
example for operands of the wrong type or an integer that exceeds 64 bits. The operators charge no cost: `closures`
does.
"""

import math
from collections.abc import Callable
from typing import Any

from muster.cluster.apiserver.cel.values import (
    INT_MAX,
    INT_MIN,
    CelError,
    Duration,
    Optional,
    Timestamp,
    UInt,
    equals,
    int_of,
    is_less,
    is_number,
    make_overload_error,
    type_name,
    uint_of,
)

# The types that a key of a map may have.
KEYS = frozenset((str, int, UInt, bool))
# The range of timestamps by the CEL specification: the years 1 to 9999.
_FIRST, _LAST = -62135596800 * 10**9, 253402300800 * 10**9 - 1


def timestamp_of(nanos: int) -> Timestamp:
    """Return the CEL timestamp that is this many nanoseconds after the start of 1970.

    Raises `CelError` if the timestamp is outside of the years 1 to 9999.
    """
    if _FIRST <= nanos <= _LAST:
        return Timestamp(nanos)
    raise CelError("timestamp overflow")


def duration_of(nanos: int) -> Duration:
    """Return the CEL duration of this many nanoseconds. Raises `CelError` if the number exceeds 64 bits."""
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise CelError("duration overflow")


def add(a: Any, b: Any) -> Any:
    """Return CEL's `a + b`. Raises `CelError` if the types do not fit or the result overflows."""
    match a, b:
        case (bool(), _) | (_, bool()):
            pass
        case (UInt(), UInt()):
            return uint_of(int(a) + int(b))
        case (int(), int()) if type(a) is type(b):
            return int_of(a + b)
        case (float(), float()) | (str(), str()) | (bytes(), bytes()) | (list(), list()):
            return a + b
        case (Timestamp(), Duration()) | (Duration(), Timestamp()):
            return timestamp_of(a.nanos + b.nanos)
        case (Duration(), Duration()):
            return duration_of(a.nanos + b.nanos)
    raise make_overload_error("_+_", a, b)


def subtract(a: Any, b: Any) -> Any:
    """Return CEL's `a - b`. Raises `CelError` if the types do not fit or the result overflows."""
    match a, b:
        case (bool(), _) | (_, bool()):
            pass
        case (UInt(), UInt()):
            return uint_of(int(a) - int(b))
        case (int(), int()) if type(a) is type(b):
            return int_of(a - b)
        case (float(), float()):
            return a - b
        case (Timestamp(), Timestamp()) | (Duration(), Duration()):
            return duration_of(a.nanos - b.nanos)
        case (Timestamp(), Duration()):
            return timestamp_of(a.nanos - b.nanos)
    raise make_overload_error("_-_", a, b)


def _make_arithmetic(
    name: str, integers: Callable[[int, int], int], doubles: Callable[[float, float], float] | None
) -> Callable[[Any, Any], Any]:
    def operator(a: Any, b: Any) -> Any:
        kind = type(a)
        if kind is type(b):
            if kind is int:
                return int_of(integers(a, b))
            if kind is UInt:
                return uint_of(integers(int(a), int(b)))
            if kind is float and doubles is not None:
                return doubles(a, b)
        raise make_overload_error(name, a, b)

    return operator


def _divide_towards_zero(a: int, b: int) -> int:
    """Return `a / b`, rounded towards zero. Raises `CelError` if `b` is 0."""
    if b == 0:
        raise CelError("division by zero")
    return a // b if (a >= 0) == (b >= 0) else -(-a // b)


def _compute_remainder(a: int, b: int) -> int:
    if b == 0:
        raise CelError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise CelError("integer overflow")
    return a - b * _divide_towards_zero(a, b)


def _divide_doubles(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def negate(a: Any) -> Any:
    """Return CEL's `-a`. Raises `CelError` if `a` is no number or the result overflows."""
    if type(a) is int:
        return int_of(-a)
    if type(a) is float:
        return -a
    raise make_overload_error("-_", a)


def invert(a: Any) -> bool:
    """Return CEL's `!a`. Raises `CelError` if `a` is no bool."""
    if type(a) is bool:
        return not a
    raise make_overload_error("!_", a)


def contains(item: Any, container: Any) -> bool:
    """Return `item in container`: whether the item is an element of the list or a key of the map.

    Raises `CelError` for another container.
    """
    if type(container) is dict:
        return key_of(container, item) is not None
    if type(container) is list:
        return any(equals(item, each) for each in container)
    raise make_overload_error("@in", item, container)


def key_of(mapping: dict[Any, Any], key: Any) -> Any:
    """Return the key of the map that equals a value in CEL; None if there is none.

    A number equals a number of any type (`1`, `1u`, `1.0`), and a bool only a bool.
    """
    if type(key) is str:
        return key if key in mapping else None
    same = is_number if is_number(key) else (lambda each: type(each) is type(key))
    return next((each for each in mapping if same(each) and each == key), None)


def index(container: Any, key: Any) -> Any:
    """Return CEL's `container[key]`; for an optional container, the result of `optional_index`.

    Raises `CelError` if a map or list has no such key.
    """
    if type(container) is dict:
        known_key = key_of(container, key)
        if known_key is None:
            raise CelError(f"no such key: {key}")
        return container[known_key]
    if type(container) is list:
        return container[require_position(container, key)]
    if type(container) is Optional:
        return optional_index(container, key)
    raise make_overload_error("_[_]", container, key)


def require_position(items: list[Any], key: Any) -> int:
    """Return a CEL index as an index of the list.

    Raises `CelError` if the key is no whole number, or it is out of bounds.
    """
    if not is_number(key) or not math.isfinite(key) or key != int(key):
        raise make_overload_error("_[_]", items, key)
    if 0 <= key < len(items):
        return int(key)
    raise CelError(f"index out of bounds: {key}")


def optional_index(container: Any, key: Any) -> Optional:
    """Return CEL's `container[?key]`; an optional without a value for a missing key.

    The container may be an optional. Raises `CelError` if it is neither that nor a map or list.
    """
    if type(container) is Optional:
        return optional_index(container.value, key) if container.present else container
    if type(container) not in (dict, list):
        raise make_overload_error("_[?_]", container, key)
    try:
        return Optional(True, index(container, key))
    except CelError:
        return Optional(False)


def optional_select(container: Any, name: str) -> Optional:
    """Return CEL's `container.?name`; an optional without a value for a missing name.

    The container may be an optional. Raises `CelError` if it is neither that nor a map.
    """
    if type(container) is Optional:
        return optional_select(container.value, name) if container.present else container
    if type(container) is not dict:
        raise make_overload_error("_?._", container, name)
    return Optional(True, container[name]) if name in container else Optional(False)


def select(container: Any, name: str) -> Any:
    """Return `container.name` if the container is an optional; else raise `CelError`.

    Callers look the name up in a map themselves, and call this function if the lookup fails. So the error says that the
    map has no such key, or that the container is neither a map nor an optional.
    """
    if type(container) is Optional:
        return optional_select(container, name)
    if type(container) is dict:
        raise CelError(f"no such key: {name}")
    raise CelError(f"no such overload: select of {name} on {type_name(container)}")


def measure_size(value: Any) -> int:
    """Return CEL's `size(value)`. Raises `CelError` for a value that has no size."""
    if type(value) in (str, bytes, list, dict):
        return len(value)
    raise make_overload_error("size", value)


UNARY: dict[str, Callable[[Any], Any]] = {"!_": invert, "-_": negate, "size": measure_size}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "_==_": equals,
    "_!=_": lambda a, b: not equals(a, b),
    "_<_": is_less,
    "_>_": lambda a, b: is_less(b, a),
    "_<=_": lambda a, b: is_less(a, b) or (a == b),
    "_>=_": lambda a, b: is_less(b, a) or (a == b),
    "_+_": add,
    "_-_": subtract,
    "_*_": _make_arithmetic("_*_", lambda a, b: a * b, lambda a, b: a * b),
    "_/_": _make_arithmetic("_/_", _divide_towards_zero, _divide_doubles),
    "_%_": _make_arithmetic("_%_", _compute_remainder, None),
    "_[_]": index,
    "_[?_]": optional_index,
    "_?._": optional_select,
    "@in": contains,
}
