"""The functions of Kubernetes' quantities (`500m`, `2Gi`)."""

from fractions import Fraction

from muster.api.values import quantity
from muster.cluster.apiserver.cel.library.overloads import Amount, Functions
from muster.cluster.apiserver.cel.values import INT_MAX, INT_MIN, CelError

_NANO = 10**9


def parse_quantity(text: str) -> Amount:
    """Parse a quantity. Raises `CelError` if the text is no quantity."""
    try:
        return Amount(int(quantity.parse(text) * _NANO))
    except quantity.QuantityError as error:
        raise CelError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _is_integer(amount: Amount) -> bool:
    return amount.nanos % _NANO == 0 and INT_MIN <= amount.nanos // _NANO <= INT_MAX


def _convert_to_integer(amount: Amount) -> int:
    if not _is_integer(amount):
        raise CelError("cannot convert value to integer")
    return amount.nanos // _NANO


FUNCTIONS = Functions(
    table=(
        ("quantity", "(string) -> kubernetes.Quantity", parse_quantity),
        ("isQuantity", "(string) -> bool", _is_quantity),
        ("sign", "kubernetes.Quantity.() -> int", lambda a: (a.nanos > 0) - (a.nanos < 0)),
        ("isInteger", "kubernetes.Quantity.() -> bool", _is_integer),
        ("asInteger", "kubernetes.Quantity.() -> int", _convert_to_integer),
        ("asApproximateFloat", "kubernetes.Quantity.() -> double", lambda a: float(Fraction(a.nanos, _NANO))),
        (
            "add",
            "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
            lambda a, b: Amount(a.nanos + b.nanos),
        ),
        ("add", "kubernetes.Quantity.(int) -> kubernetes.Quantity", lambda a, b: Amount(a.nanos + b * _NANO)),
        (
            "sub",
            "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
            lambda a, b: Amount(a.nanos - b.nanos),
        ),
        ("sub", "kubernetes.Quantity.(int) -> kubernetes.Quantity", lambda a, b: Amount(a.nanos - b * _NANO)),
        ("isGreaterThan", "kubernetes.Quantity.(kubernetes.Quantity) -> bool", lambda a, b: a.nanos > b.nanos),
        ("isLessThan", "kubernetes.Quantity.(kubernetes.Quantity) -> bool", lambda a, b: a.nanos < b.nanos),
        (
            "compareTo",
            "kubernetes.Quantity.(kubernetes.Quantity) -> int",
            lambda a, b: (a.nanos > b.nanos) - (a.nanos < b.nanos),
        ),
    ),
)
