"""What a field of an API type says beyond its Python type: the words that end up in the OpenAPI schema.

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
    patch_strategy: str = ""  # "", "merge" or "merge,retainKeys"


class AtomicMap(Struct, frozen=True):
    """An object or map that server-side apply replaces as a whole."""


class GranularMap(Struct, frozen=True):
    """An object or map whose members server-side apply tells apart, even if it replaces others of its type whole."""


class Patched(Struct, frozen=True):
    """How a strategic merge patch treats an object: `replace`, or `retainKeys`."""

    strategy: str


class Limits(Struct, frozen=True):
    """What else the API asks of a value: OpenAPI keywords (`maxItems`, `pattern`) and their arguments."""

    keywords: tuple[tuple[str, Any], ...]


class DefaultedField(Struct, frozen=True):
    """The API fills in the field's Python default where it is absent."""


class Default(Struct, frozen=True):
    """What the API takes an absent field for. Schemas say so, to clients and to server-side apply, whose keys of list
    items may be absent; filling it in is the business of `muster.api.defaults`.
    """

    value: Any


def merged_by(*keys: str, retain_keys: bool = False) -> ListRules:
    """A list of objects told apart by `keys`; a strategic merge patch matches them by the first."""
    return ListRules("map", keys, keys[0], "merge,retainKeys" if retain_keys else "merge")


def map_by(*keys: str) -> ListRules:
    """A list of objects told apart by `keys`, but replaced whole by a strategic merge patch."""
    return ListRules("map", keys)


def patched_by(key: str) -> ListRules:
    """A list that server-side apply replaces whole and a strategic merge patch merges by `key`."""
    return ListRules("atomic", (), key, "merge")


def one_of(*values: str) -> OneOf:
    """A word from a closed list."""
    return OneOf(values)


def limits(**keywords: int | str) -> Limits:
    """OpenAPI keywords in Python's spelling: `limits(min_items=1, max_items=16)`."""
    return Limits(tuple((_camel(name), value) for name, value in keywords.items()))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


ATOMIC = ListRules("atomic")
SET = ListRules("set")
MERGED_SET = ListRules("set", (), "", "merge")  # of scalars
ATOMIC_MAP = AtomicMap()
GRANULAR_MAP = GranularMap()
DEFAULTED = DefaultedField()

Required = Annotated[T, RequiredField()]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1), Format("int32")]
IntOrString = Annotated[int | str, Format("int-or-string")]
MicroTime = Annotated[datetime, Format("micro-time")]  # microseconds on the wire; other times are whole seconds
Base64 = Annotated[bytes, Format("byte")]
Strings = Annotated[tuple[str, ...], ATOMIC]
