"""The defaults of kinds that are CRDs upstream, as their schemas have them, declared by `markers.DEFAULTED`.

Defaults apply to the members of present objects. The default of an object comes with the defaults inside it. Pod
templates stay as they are written: pods get their defaults when they are created.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from muster.api.kinds import Kind
from muster.api.schema import Schema, make_structural_schema

Json = dict[str, Any]
_Fill = Callable[[Any], None]


def defaults_of(kind: Kind[Any]) -> Callable[[Json], None]:
    """Return a function that sets the defaults of the kind's schema in a document, in place."""

    def default(document: Json) -> None:
        fill = _get_filler(kind)
        if fill is not None:
            fill(document)

    return default


@cache
def _get_filler(kind: Kind[Any]) -> _Fill | None:
    # Compiled on first use, because the schema of pods takes long to compile.
    return _make_filler(make_structural_schema(kind))


def _make_filler(schema: Schema) -> _Fill | None:
    """Return a function that sets the schema's defaults in a value, in place; None if the schema has no defaults."""
    if "properties" in schema:
        return _make_member_filler(schema["properties"])
    for inner, values in (("items", iter), ("additionalProperties", _list_values)):
        each = _make_filler(schema[inner]) if isinstance(schema.get(inner), Mapping) else None
        if each is not None:
            return _make_element_filler(each, values)
    return None


def _list_values(value: Json) -> Iterator[Any]:
    return iter(value.values())


def _make_member_filler(properties: Mapping[str, Schema]) -> _Fill | None:
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    fillers = {name: fill for name, schema in properties.items() if (fill := _make_filler(schema)) is not None}
    if not defaults and not fillers:
        return None

    def fill_members(value: Json) -> None:
        for name, default in defaults.items():
            if name not in value:
                value[name] = deepcopy(default)
        for name, fill in fillers.items():
            if name in value:
                fill(value[name])

    return fill_members


def _make_element_filler(each: _Fill, values: Callable[[Any], Iterator[Any]]) -> _Fill:
    def fill_elements(value: Any) -> None:
        for item in values(value):
            each(item)

    return fill_elements
