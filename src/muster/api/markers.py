"""Marks fields of API types with what their Python type does not say: the keywords of the OpenAPI schema.

A marker stands in an `Annotated` type: `Annotated[tuple[Container, ...], merged_by("name")]`. msgspec ignores all of
them but the integer ranges; `muster.api.schema` reads them. A field that must be given is `Required[str] = ""`: the
type still decodes without it, so that validation, not decoding, tells the user what is missing.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")


class RequiredField(Struct, frozen=True):
    """The API asks for this field."""


class Format(Struct, frozen=True):
    """The OpenAPI `format` of a scalar, or one of the special shapes: `int-or-string`, `quantity`."""

    name: str


class OneOf(Struct, frozen=True):
    """The values that the API accepts, in upstream's order of definition."""

    values: tuple[str, ...]


class ListRules(Struct, frozen=True):
    """How lists are merged: `type` and `keys` by server-side apply, the rest by strategic merge patch."""

    type: Literal["atomic", "set", "map"]
    keys: tuple[str, ...] = ()
    patch_merge_key: str = ""
    patch_strategy: Literal["", "merge"] = ""


class AtomicMap(Struct, frozen=True):
    """An object or map that server-side apply replaces as a whole."""


class Limits(Struct, frozen=True):
    """What else the API asks of a value: OpenAPI keywords (`maxItems`, `pattern`) and their arguments."""

    keywords: tuple[tuple[str, Any], ...]


class DefaultedField(Struct, frozen=True):
    """The API fills in the field's Python default where it is absent."""


def merged_by(*keys: str) -> ListRules:
    """Return the marker of a list of objects identified by `keys`.

    A strategic merge patch matches them by the first key.
    """
    return ListRules("map", keys, keys[0], "merge")


def map_by(*keys: str) -> ListRules:
    """Return the marker of a list of objects identified by `keys`, but replaced whole by a strategic merge patch."""
    return ListRules("map", keys)


def one_of(*values: str) -> OneOf:
    """Return the marker of a word from a closed list."""
    return OneOf(values)


def limits(**keywords: int | str) -> Limits:
    """Return OpenAPI keywords in Python's spelling: `limits(min_items=1, max_items=16)`."""
    return Limits(tuple((_camel(name), value) for name, value in keywords.items()))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


ATOMIC = ListRules("atomic")
SET = ListRules("set")
MERGED_SET = ListRules("set", (), "", "merge")  # of scalars
ATOMIC_MAP = AtomicMap()
DEFAULTED = DefaultedField()

Required = Annotated[T, RequiredField()]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1), Format("int32")]
IntOrString = Annotated[int | str, Format("int-or-string")]
MicroTime = Annotated[datetime, Format("micro-time")]  # microseconds on the wire; other times are whole seconds
Base64 = Annotated[bytes, Format("byte")]
Strings = Annotated[tuple[str, ...], ATOMIC]
