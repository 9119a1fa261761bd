"""Single fields: what empty ones become, and quantities in the form that the API server keeps them in."""

from typing import Any

from muster.api.values.quantity import QuantityError, canonical, rounded_up_to_milli


def fill(parent: dict[str, Any], field: str, value: str | int) -> None:
    """Where empty and absent mean the same."""
    if not parent.get(field):
        parent[field] = value


def default_resource_list(resources: dict[str, Any] | None) -> None:
    """Write requests, limits and capacities in canonical form, rounded up to thousandths."""
    for name, quantity in (resources or {}).items():
        try:
            text = rounded_up_to_milli(quantity)
        except QuantityError:
            continue  # validation says so, with the path
        if text is not quantity:
            assert resources is not None
            resources[name] = text


def default_requirements(requirements: dict[str, Any]) -> None:
    """Fill in both lists of a container's or pod's `resources`."""
    default_resource_list(requirements.get("limits"))
    default_resource_list(requirements.get("requests"))


def default_quantity(parent: dict[str, Any], field: str) -> None:
    """Write one quantity in canonical form."""
    if field in parent:
        try:
            parent[field] = canonical(parent[field])
        except QuantityError:
            return  # validation says so, with the path
