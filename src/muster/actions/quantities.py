"""Checks amounts of resources that users write. Pure."""

from muster.api.values.quantity import QuantityError, parse

_LEAST_MEMORY = 1_000_000


def quantity(text: str) -> str:
    """Return a quantity in Kubernetes' notation if it is valid. Raises `ValueError` with a sentence for the user."""
    try:
        below = parse(text) < 0
    except QuantityError:
        raise ValueError(f"{text!r} is no quantity, as 8, 500m or 32Gi") from None
    if below:
        raise ValueError(f"{text} is below 0")
    return text


def memory(text: str) -> str:
    """Return an amount of memory if it is valid. Raises `ValueError` with a sentence for the user.

    An amount without a unit is in bytes. An amount below a megabyte is refused, because its unit was probably
    forgotten.
    """
    if 0 < parse(quantity(text)) < _LEAST_MEMORY:
        raise ValueError(f"{text} is less than a megabyte; say it with a unit, as 512Mi or 4Gi")
    return text
