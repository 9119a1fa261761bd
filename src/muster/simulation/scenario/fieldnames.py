"""List the fields that each part of a scenario or a manifest may have, for errors about unknown fields. Pure."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import inspect

from muster.simulation.scenario.model import Scenario

_LISTS = (inspect.VarTupleType, inspect.ListType)
_STEP = re.compile(r"([^.\[\]]+)|\[[^\]]*\]")


def list_fields(path: str) -> Sequence[str]:
    """Return the fields of the part of a scenario at a path, such as `spec.work[0].trace`; () if it is no part."""
    part = describe_part(Scenario)
    for name in _STEP.findall(path):
        part = enter_part(part, name)
    return name_fields(part)


@cache  # each of thousands of variants describes the same types
def describe_part(type: type[Any]) -> inspect.Type | None:
    """Return the description of a type, from which `enter_part` finds the parts."""
    return _find_part(inspect.type_info(type))


def name_fields(part: inspect.Type | None) -> Sequence[str]:
    """Return the fields of a part; () if it has none, or accepts any field."""
    return [field.encode_name for field in part.fields] if isinstance(part, inspect.StructType) else ()


def enter_part(part: inspect.Type | None, name: str) -> inspect.Type | None:
    """Return the part in a field of `part`, or in an item of a list or map; None if the field is unknown."""
    if isinstance(part, inspect.StructType):
        return _find_part(next((field.type for field in part.fields if field.encode_name == name), None))
    if isinstance(part, inspect.DictType):
        return _find_part(part.value_type)
    return _find_part(part.item_type) if isinstance(part, _LISTS) else None


def _find_part(type: inspect.Type | None) -> inspect.Type | None:
    """Return the alternative with fields or items, if a type has alternatives; else the type itself."""
    if isinstance(type, inspect.Metadata):
        return _find_part(type.type)
    if not isinstance(type, inspect.UnionType):
        return type
    parts = (inspect.StructType, inspect.DictType, *_LISTS)
    return next((one for one in map(_find_part, type.types) if isinstance(one, parts)), None)
