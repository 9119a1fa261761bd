"""Schemas laid out flat, to compare ours with those of others."""

from collections.abc import Collection, Iterator
from typing import Any

# What a schema says of a value, besides what is in it.
KEYWORDS = (
    "type", "format", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "minimum", "maximum", "default", "required", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-int-or-string", "anyOf",
)  # fmt: skip
UNORDERED = ("enum", "required")


def flat(schema: Any, but: Collection[str] = (), path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value in a schema by its path, with the keywords that it has; `but` those at these paths."""
    if path in but:
        return
    said = {name: schema[name] for name in KEYWORDS if name in schema}
    yield path, {name: sorted(map(str, value)) if name in UNORDERED else value for name, value in said.items()}
    for name, member in schema.get("properties", {}).items():
        yield from flat(member, but, f"{path}.{name}")
    for inner, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(inner), dict):
            yield from flat(schema[inner], but, path + mark)
