"""Name the fields that each part of a scenario may have, for errors about unknown ones. Pure."""

import re
from collections.abc import Sequence

from msgspec import inspect

from muster.simulation.scenario.model import Scenario

_STEP = re.compile(r"([^.\[\]]+)|\[[^\]]*\]")


def list_fields(path: str) -> Sequence[str]:
    """Return the fields that the part at a path has, such as `spec.work[0].trace`; () if it is no part."""
    part = _find_part(inspect.type_info(Scenario))
    for name in _STEP.findall(path):
        part = _find_part(_enter(part, name))
    return [field.encode_name for field in part.fields] if isinstance(part, inspect.StructType) else ()


def _enter(part: inspect.Type | None, name: str) -> inspect.Type | None:
    """Return the type of a field; with "", of the items of a list or a map."""
    if isinstance(part, inspect.StructType):
        return next((field.type for field in part.fields if field.encode_name == name), None)
    if isinstance(part, inspect.DictType):
        return part.value_type
    return part.item_type if isinstance(part, inspect.VarTupleType) else None


def _find_part(type: inspect.Type | None) -> inspect.Type | None:
    """Return the alternative of a type that has fields or items, if the type has alternatives."""
    if not isinstance(type, inspect.UnionType):
        return type
    parts = (inspect.StructType, inspect.DictType, inspect.VarTupleType)
    return next((one for one in type.types if isinstance(one, parts)), None)
