"""Amounts of resources, as users ask for them. Pure."""

from muster.api.values.quantity import QuantityError, parse

_LEAST_MEMORY = 1_000_000


def quantity(text: str) -> str:
    """An amount of something, as Kubernetes writes it. Raises `ValueError` with a sentence for the user."""
    try:
        below = parse(text) < 0
    except QuantityError:
        raise ValueError(f"{text!r} is no quantity, as 8, 500m or 32Gi") from None
    if below:
        raise ValueError(f"{text} is below 0")
    return text


def memory(text: str) -> str:
    """An amount of memory. Without a unit it is bytes: so few as no program has are a unit that was forgotten.

    Raises `ValueError` with a sentence for the user.
    """
    if 0 < parse(quantity(text)) < _LEAST_MEMORY:
        raise ValueError(f"{text} is less than a megabyte; say it with a unit, as 512Mi or 4Gi")
    return text
