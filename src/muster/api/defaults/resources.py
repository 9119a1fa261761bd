"""Helpers for single fields: defaults of empty fields, and the canonical form of quantities."""

from typing import Any

from muster.api.values.quantity import QuantityError, format_canonical, round_up_to_milli


def fill(parent: dict[str, Any], field: str, value: str | int) -> None:
    """Set a field that is absent or empty."""
    if not parent.get(field):
        parent[field] = value


def default_resource_list(resources: dict[str, Any] | None) -> None:
    """Convert requests, limits or capacities in place to canonical form, rounded up to thousandths.

    Invalid quantities stay: the validation reports them.
    """
    for name, quantity in (resources or {}).items():
        try:
            text = round_up_to_milli(quantity)
        except QuantityError:
            continue  # validation says so, with the path
        if text is not quantity:
            assert resources is not None
            resources[name] = text


def default_requirements(requirements: dict[str, Any]) -> None:
    """Convert the quantities in `requests` and `limits` of a container or pod to canonical form."""
    default_resource_list(requirements.get("limits"))
    default_resource_list(requirements.get("requests"))


def default_quantity(parent: dict[str, Any], field: str) -> None:
    """Convert the quantity in a field to canonical form, if the field is present and valid."""
    if field in parent:
        try:
            parent[field] = format_canonical(parent[field])
        except QuantityError:
            return  # validation says so, with the path
