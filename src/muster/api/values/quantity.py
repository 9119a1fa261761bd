"""The amounts of resources in the notation of users (`500m`, `2Gi`), and as the integers of decisions.

The rules follow Kubernetes' `resource.Quantity`: a decimal number and a suffix, which is binary (Ki to Ei),
decimal (n to E) or an exponent (e3). Fractions of a billionth are rounded up, away from zero. Decisions use
`parse_amount`: thousandths of a CPU, and whole units of everything else, always rounded up.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final

from muster.api.markers import Format

if TYPE_CHECKING:
    from fractions import Fraction

Quantity = Annotated[str | int | float, Format("quantity")]
ResourceList = dict[str, Quantity]

BINARY: Final = "BinarySI"
DECIMAL: Final = "DecimalSI"
EXPONENT: Final = "DecimalExponent"

_NANO = 10**9
_MAX_BINARY = (2**63 - 1) * _NANO  # the maximum of an amount with a binary suffix, to which larger ones are cut
_MAX_LENGTH = 128  # characters; no real amount is longer, and int() of a very long text is slow
_MAX_EXPONENT = 64  # the largest power of ten; a larger one is a mistake, and its number would be very long

_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_BY_POWER = {power: suffix for suffix, power in _BINARY_SUFFIXES.items()} | {0: ""}
_DECIMAL_BY_POWER = {power: suffix for suffix, power in _DECIMAL_SUFFIXES.items()}

_SHAPE = r"(?a)([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)"
_POWER = r"(?a)[eE]([+-]?[0-9]+)"

# The resources of nodes and volumes that are counted in bytes.
_BYTES = ("memory", "ephemeral-storage", "storage")


class QuantityError(ValueError):
    """A text that is no quantity. The message is the API server's."""


_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


def parse(quantity: Quantity) -> "Fraction":
    """Parse the exact amount, to a billionth.

    Raises:
        QuantityError: the text is no quantity.
    """
    return _parse_fraction(_format_text(quantity))


def parse_thousandths(quantity: Quantity) -> int:
    """Parse the amount to thousandths, rounded up.

    Raises:
        QuantityError: the text is no quantity.
    """
    return -(-_parse_nanos(quantity) // 10**6)


def parse_whole_units(quantity: Quantity) -> int:
    """Parse the amount to whole units, rounded up.

    Raises:
        QuantityError: the text is no quantity.
    """
    return -(-_parse_nanos(quantity) // _NANO)


def parse_amount(resource: str, quantity: Quantity) -> int:
    """Parse the amount to the unit that decisions use for the resource.

    Raises:
        QuantityError: the text is no quantity.
    """
    return parse_thousandths(quantity) if resource == "cpu" else parse_whole_units(quantity)


def advise_notation(resource: str) -> str:
    """Return how users write an amount of a resource, for the error about a text that is no quantity."""
    if resource == "cpu":
        return "write it as 8 or 500m"
    return "write it as 512Mi or 32Gi" if is_counted_in_bytes(resource) else "write it as a whole number, as 8"


def is_counted_in_bytes(resource: str) -> bool:
    """Return whether the amounts of a resource are bytes, and have binary suffixes by default."""
    return resource in _BYTES or resource.startswith("hugepages-")


def format_amount(resource: str, number: int) -> str:
    """Format a number of `parse_amount`'s units as a quantity: `1500m` CPUs, `2Gi` of memory."""
    if resource == "cpu":
        return _write(number * 10**6, DECIMAL)
    return _write(number * _NANO, BINARY if is_counted_in_bytes(resource) else DECIMAL)


def format_canonical(quantity: Quantity) -> str:
    """Return the amount in the API server's canonical form: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`.

    Raises:
        QuantityError: the text is no quantity.
    """
    return _format_canonical(_format_text(quantity))


def round_up_to_milli(quantity: Quantity) -> str:
    """Return the canonical form rounded up to thousandths, in which the API server stores requests and limits."""
    return _round_up_to_milli(_format_text(quantity))


def _parse_nanos(quantity: Quantity) -> int:
    return _parse(_format_text(quantity))[0]


def _format_text(quantity: Quantity) -> str:
    return quantity if isinstance(quantity, str) else repr(quantity)


def _round_up(nanos: int, unit: int) -> int:
    """Round to the next multiple of the unit, away from zero."""
    whole = -(-abs(nanos) // unit) * unit
    return whole if nanos >= 0 else -whole


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[int, str]:
    """Parse a text to billionths, and return the text's notation too."""
    if not text or len(text) > _MAX_LENGTH or not (shape := re.fullmatch(_SHAPE, text)):
        raise QuantityError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = shape.groups(default="")
    digits = int(whole + fraction or "0")
    places = len(fraction)
    if suffix in _BINARY_SUFFIXES:
        form, number, unit = BINARY, (digits * _NANO) << _BINARY_SUFFIXES[suffix], 10**places
    else:
        form = DECIMAL if suffix in _DECIMAL_SUFFIXES else EXPONENT
        power = _DECIMAL_SUFFIXES[suffix] if form is DECIMAL else _parse_exponent(suffix)
        number, unit = digits * 10 ** max(power + 9, 0), 10 ** (places + max(-power - 9, 0))
    nanos = -(-number // unit)
    if form == BINARY:
        nanos = min(nanos, _MAX_BINARY)
        if 0 < nanos < _NANO:
            form = DECIMAL
    return (-nanos if sign == "-" else nanos), form


# The results are cached, because most objects have the same few quantities.


@lru_cache(maxsize=4096)
def _parse_fraction(text: str) -> "Fraction":
    from fractions import Fraction  # few commands need exact amounts

    return Fraction(_parse(text)[0], _NANO)


@lru_cache(maxsize=4096)
def _format_canonical(text: str) -> str:
    nanos, form = _parse(text)
    return text if _is_canonical(text, -9) else _write(nanos, form)


@lru_cache(maxsize=4096)
def _round_up_to_milli(text: str) -> str:
    nanos, form = _parse(text)
    return text if _is_canonical(text, -3) else _write(_round_up(nanos, 10**6), form)


def _is_canonical(text: str, finest: int) -> bool:
    """Return whether upstream's parser treats a text as canonical.

    The parser does so for most canonical texts, and for some texts with leading signs and zeros.
    """
    shape = re.fullmatch(_SHAPE, text)
    assert shape is not None, "it was parsed"
    _, whole, fraction, suffix = shape.groups(default="")
    digits = whole.lstrip("0") or "0"
    if suffix in _BINARY_SUFFIXES:
        room = 14 - len(digits) - _BINARY_SUFFIXES[suffix] * 3 // 10
        return not fraction and room >= 0 and int(digits) % 8 != 0
    shifted = digits + fraction
    power = (_DECIMAL_SUFFIXES[suffix] if suffix in _DECIMAL_SUFFIXES else _parse_exponent(suffix)) - len(fraction)
    fits = len(shifted) <= 18 and power >= finest and power % 3 == 0
    return fits and shifted[0] != "0" and not shifted.endswith("000")


def _parse_exponent(suffix: str) -> int:
    match = re.fullmatch(_POWER, suffix)
    if match is None or abs(power := int(match[1])) > _MAX_EXPONENT:
        raise QuantityError(_WRONG_SUFFIX)
    return power


def _write(nanos: int, form: str) -> str:
    if nanos == 0:
        return "0"
    whole, rest = divmod(abs(nanos), _NANO)
    sign = "-" if nanos < 0 else ""
    if form == BINARY and rest == 0 and whole >= 1024:
        power = 0
        while whole % 1024 == 0 and power < 60:
            whole, power = whole // 1024, power + 10
        return f"{sign}{whole}{_BINARY_BY_POWER[power]}"
    number, power = abs(nanos), -9
    # The suffix with the fewest digits. There is no suffix above E.
    while number % 1000 == 0 and (form == EXPONENT or power < 18):
        number, power = number // 1000, power + 3
    if form == EXPONENT:
        return f"{sign}{number}" + (f"e{power}" if power else "")
    return f"{sign}{number}{_DECIMAL_BY_POWER[power]}"
