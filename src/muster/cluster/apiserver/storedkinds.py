"""Read the data of stored-only kinds: their names, the rules for writes, and the columns of their tables.

`storedkinds.json` lists the kinds by resource (`deployments.apps`), with the rules of k8s.io/kubernetes (pkg/registry,
one strategy per kind). An entry without a kind only has columns. Validation and defaults are in `muster.api`.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

_DATA = Path(__file__).with_suffix(".json")


class StoredColumn(msgspec.Struct, frozen=True, rename={"only_with": "if"}):
    """A column of a kind's tables.

    cell: how the value at `path` is rendered, or the name of a function of the whole object.
    otherwise: the cell of an object without a value at `path`.
    of: for a `parts` cell, the path of the whole.
    most: the maximum number of values in a `joined` cell.
    only_with: a path; the cell is empty if the object has no value there.
    """

    name: str
    description: str = ""
    type: str = "string"
    format: str = ""
    priority: int = 0
    cell: str = "value"
    path: str = ""
    otherwise: str | int | bool = ""
    of: str = ""
    most: int | None = None
    only_with: str = ""


# A column, or the name of a column that most kinds share.
AnyColumn: TypeAlias = StoredColumn | Literal["Name", "Age"]


class StoredKind(msgspec.Struct, frozen=True, rename="camel"):
    """A stored-only kind: the server stores and lists its objects, and no controller acts on them.

    fields: the fields by which clients may select objects.
    counts_all: whether a change of any member raises the generation, as for kinds without a spec.
    new_status: the status of a new object; if absent, the writer's status stays.
    but: an effect that users may expect, and that does not happen here.

    The other fields are the same as in `registry.resources.Rules`.
    """

    api_version: str = ""
    kind: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    has_status: bool = True
    scales: bool = False
    has_generation: bool = False
    counts_all: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    propagation: Literal["Background", "Orphan"] = "Background"
    new_status: dict[str, Any] | None = None
    but: str = ""
    columns: tuple[AnyColumn, ...] = ()


@cache
def read_stored_kinds() -> Mapping[str, StoredKind]:
    """Return the kinds in `storedkinds.json`, by resource, in the order of the file."""
    return msgspec.json.decode(_DATA.read_bytes(), type=dict[str, StoredKind])
