"""Validate quantities of resources that users enter, and parse the request and limit of a worker. Pure."""

from collections.abc import Callable

from msgspec import Struct

from muster.api.values.quantity import QuantityError, advise_notation, parse, parse_amount

_LEAST_MEMORY = 1_000_000
# Kubernetes and Kueue store 64-bit integers: millicores for CPU, and whole units for every other resource.
_MOST_UNITS = 2**63 - 1


class Amount(Struct, frozen=True):
    """A worker's request and limit for a resource, as Kubernetes quantities. "" means that the value is unset."""

    request: str = ""
    limit: str = ""


NOTHING = Amount()


def check_quantity(text: str, resource: str = "cpu") -> str:
    """Return a Kubernetes quantity unchanged if it is valid and at least 0.

    resource: the resource, for the advice in the error.

    Raises `ValueError` with a sentence for the user.
    """
    try:
        below = parse(text) < 0
    except QuantityError:
        raise ValueError(f"{text!r} is no quantity; {advise_notation(resource)}") from None
    if below:
        raise ValueError(f"{text} is below 0")
    return text


def check_memory(text: str) -> str:
    """Return an amount of memory if it is valid. Raises `ValueError` with a sentence for the user.

    An amount without a unit is in bytes. Less than a megabyte is refused, because the user probably forgot the unit.
    """
    if 0 < parse(check_quantity(text, "memory")) < _LEAST_MEMORY:
        raise ValueError(f"{text} is less than a megabyte; say it with a unit, as 512Mi or 4Gi")
    return text


def check_quota(resource: str, text: str) -> str:
    """Return a quota of a resource if it is valid. Raises `ValueError` with a sentence for the user."""
    written = check_memory(text) if resource == "memory" else check_quantity(text, resource)
    if parse_amount(resource, written) > _MOST_UNITS:
        most = _MOST_UNITS // 1000 if resource == "cpu" else _MOST_UNITS
        raise ValueError(f"{text} {resource} is more than Kubernetes counts, which is {most}")
    return written


def worker_cpus(text: str) -> Amount:
    """Parse a worker's CPU request and limit from `REQUEST[:LIMIT]`.

    Raises `ValueError` with a sentence for the user.
    """
    return _parse_amount(text, check_quantity)


def worker_memory(text: str) -> Amount:
    """Parse a worker's memory request and limit from `REQUEST[:LIMIT]`.

    Raises `ValueError` with a sentence for the user.
    """
    return _parse_amount(text, check_memory)


def _parse_amount(text: str, read: Callable[[str], str]) -> Amount:
    """Parse `REQUEST[:LIMIT]`. Without a limit, the limit equals the request.

    read: validates each quantity and returns it.

    Raises `ValueError` if the limit is lower than the request.
    """
    first, colon, second = text.partition(":")
    request, limit = read(first), read(second if colon else first)
    if parse(limit) < parse(request):
        raise ValueError(f"the limit {limit} is below the request {request}")
    return Amount(request, limit if parse(limit) else "")  # a limit of 0 would mean no limit
