"""The markers of fields of API types, for the keywords of the OpenAPI schema that a Python type cannot express.

A marker is part of an `Annotated` type: `Annotated[tuple[Container, ...], merged_by("name")]`. `muster.api.schema`
reads all markers, msgspec only the integer ranges. A required field is `Required[str] = ""`. The type decodes without
it, so that the validation instead of the decoder reports the missing field.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")


class RequiredField(Struct, frozen=True):
    """The marker of a required field."""


class Format(Struct, frozen=True):
    """The marker of the OpenAPI `format` of a scalar, or of a special shape: `int-or-string`, `quantity`, `object`."""

    name: str


class OneOf(Struct, frozen=True):
    """The marker of the values that the API accepts, in upstream's order of definition."""

    values: tuple[str, ...]


class ListRules(Struct, frozen=True):
    """The marker of the merge rules of a list.

    `type` and `keys` are the rules of server-side apply, the other fields those of strategic merge patch.
    """

    type: Literal["atomic", "set", "map"]
    keys: tuple[str, ...] = ()
    patch_merge_key: str = ""
    patch_strategy: Literal["", "merge"] = ""


class AtomicMap(Struct, frozen=True):
    """The marker of an object or map that server-side apply replaces as a whole."""


class Limits(Struct, frozen=True):
    """The marker of other limits of a value: OpenAPI keywords (`maxItems`, `pattern`) and their arguments."""

    keywords: tuple[tuple[str, Any], ...]


class DefaultedField(Struct, frozen=True):
    """The marker of an absent field to which the API gives its Python default."""


def merged_by(*keys: str) -> ListRules:
    """Return the marker of a list of objects identified by `keys`.

    A strategic merge patch matches them by the first key.
    """
    return ListRules("map", keys, keys[0], "merge")


def map_by(*keys: str) -> ListRules:
    """Return the marker of a list of objects identified by `keys`, which a strategic merge patch replaces whole."""
    return ListRules("map", keys)


def one_of(*values: str) -> OneOf:
    """Return the marker of a value from a closed list."""
    return OneOf(values)


def limits(**keywords: int | str) -> Limits:
    """Return the marker of OpenAPI keywords in Python's spelling: `limits(min_items=1, max_items=16)`."""
    return Limits(tuple((_to_camel_case(name), value) for name, value in keywords.items()))


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


ATOMIC = ListRules("atomic")
SET = ListRules("set")
MERGED_SET = ListRules("set", (), "", "merge")  # for lists of scalars
ATOMIC_MAP = AtomicMap()
DEFAULTED = DefaultedField()

Required = Annotated[T, RequiredField()]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1), Format("int32")]
IntOrString = Annotated[int | str, Format("int-or-string")]
MicroTime = Annotated[datetime, Format("micro-time")]  # microseconds on the wire; other times are whole seconds
Base64 = Annotated[bytes, Format("byte")]
Strings = Annotated[tuple[str, ...], ATOMIC]
