"""The conversions between types."""

import math
from decimal import Decimal
from typing import Any

from muster.api.values.booleans import parse_boolean
from muster.cluster.apiserver.cel.library.overloads import Functions
from muster.cluster.apiserver.cel.library.times import show_duration, show_timestamp
from muster.cluster.apiserver.cel.operators import duration_of, timestamp_of
from muster.cluster.apiserver.cel.shapes import parse_duration, parse_timestamp
from muster.cluster.apiserver.cel.values import (
    TYPES,
    CelError,
    Timestamp,
    TypeValue,
    UInt,
    int_of,
    truncate_double,
    type_name,
    uint_of,
)

_LONGEST_NUMBER = 40  # characters; longer texts are refused without parsing, and messages cut them here


def show_double(value: float) -> str:
    """Format a double as Go's `%g` does."""
    if math.isinf(value) or math.isnan(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    if not number or -5 < exponent < 6:
        return format(number, "f")
    return f"{format(number, 'e').partition('e')[0]}e{exponent:+03}"


def _parse_int(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if len(text) > _LONGEST_NUMBER or not digits.isdecimal() or not digits.isascii():
        raise CelError(f'strconv.ParseInt: parsing "{text[:_LONGEST_NUMBER]}": invalid syntax')
    return int_of(int(text))


def _parse_uint(text: str) -> UInt:
    if len(text) > _LONGEST_NUMBER or not text.isdecimal() or not text.isascii():
        raise CelError(f'strconv.ParseUint: parsing "{text[:_LONGEST_NUMBER]}": invalid syntax')
    return uint_of(int(text))


def _parse_double(text: str) -> float:
    # Python's `float` also takes underscores, spaces and digits of other scripts, and gives infinity for 1e999.
    try:
        if not text.isascii() or "_" in text or text != text.strip():
            raise ValueError
        number = float(text)
    except ValueError:
        raise CelError(f'strconv.ParseFloat: parsing "{text[:_LONGEST_NUMBER]}": invalid syntax') from None
    if math.isinf(number) and "inf" not in text.lower():
        raise CelError(f'strconv.ParseFloat: parsing "{text[:_LONGEST_NUMBER]}": value out of range')
    return number


def _parse_bool(text: str) -> bool:
    value = parse_boolean(text)
    if value is None:
        raise CelError(f'strconv.ParseBool: parsing "{text[:_LONGEST_NUMBER]}": invalid syntax')
    return value


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _parse_timestamp(text: str) -> Timestamp:
    if "T" not in text:
        raise CelError(f"invalid timestamp: {text[:_LONGEST_NUMBER]}")
    return timestamp_of(parse_timestamp(text).nanos)


def _find_type(value: Any) -> TypeValue:
    name = type_name(value)
    return TYPES.get(name) or TypeValue(name)


def _return_same(value: Any) -> Any:
    return value


FUNCTIONS = Functions(
    # The CEL library declares `string` too, but does not accept more overloads of it.
    table=(
        ("string", "(string) -> string", _return_same),
        ("string", "(int) -> string", str),
        ("string", "(uint) -> string", lambda value: str(int(value))),
        ("string", "(double) -> string", show_double),
        ("string", "(bool) -> string", lambda value: "true" if value else "false"),
        ("string", "(bytes) -> string", _decode_text),
        ("string", "(timestamp) -> string", show_timestamp),
        ("string", "(duration) -> string", show_duration),
        ("string", "(net.IP) -> string", lambda address: str(address.ip)),
        ("string", "(net.CIDR) -> string", lambda cidr: f"{cidr.ip}/{cidr.network.prefixlen}"),
    ),
    standard=(
        ("int", "(int) -> int", _return_same),
        ("int", "(uint) -> int", lambda value: int_of(int(value))),
        ("int", "(double) -> int", lambda value: int_of(truncate_double(value))),
        ("int", "(string) -> int", _parse_int),
        ("int", "(timestamp) -> int", lambda value: value.nanos // 10**9),
        ("int", "(duration) -> int", lambda value: value.nanos),
        ("uint", "(uint) -> uint", _return_same),
        ("uint", "(int) -> uint", uint_of),
        ("uint", "(double) -> uint", lambda value: uint_of(truncate_double(value))),
        ("uint", "(string) -> uint", _parse_uint),
        ("double", "(double) -> double", _return_same),
        ("double", "(int) -> double", float),
        ("double", "(uint) -> double", float),
        ("double", "(string) -> double", _parse_double),
        ("bytes", "(bytes) -> bytes", _return_same),
        ("bytes", "(string) -> bytes", str.encode),
        ("bool", "(bool) -> bool", _return_same),
        ("bool", "(string) -> bool", _parse_bool),
        ("timestamp", "(timestamp) -> timestamp", _return_same),
        ("timestamp", "(string) -> timestamp", _parse_timestamp),
        ("timestamp", "(int) -> timestamp", lambda seconds: timestamp_of(seconds * 10**9)),
        ("duration", "(duration) -> duration", _return_same),
        ("duration", "(string) -> duration", lambda text: duration_of(parse_duration(text).nanos)),
        ("dyn", "(dyn) -> dyn", _return_same),
        ("type", "(dyn) -> type", _find_type),
    ),
)
