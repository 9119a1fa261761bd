"""The kinds that are only kept, as data: what they are called, how they are written, and what is printed of them.

`kept.json` has them by resource (`deployments.apps`), as k8s.io/kubernetes has them (pkg/registry, one strategy per
kind). Entries without a kind have columns only. Rules of what may be written, and defaults, are in `muster.api`.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

_DATA = Path(__file__).with_suffix(".json")


class KeptColumn(msgspec.Struct, frozen=True, rename={"only_with": "if"}):
    """A column of a kind's tables.

    cell: how the value at `path` is shown, or the name of a function of the whole object.
    otherwise: what is shown where nothing stands at the path.
    of: the path of the whole of which a `parts` cell shows a part.
    most: how many values a `joined` cell shows.
    only_with: a path; where nothing stands there, the cell is empty.
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


# A column, or one that most kinds have.
AnyColumn: TypeAlias = KeptColumn | Literal["Name", "Age"]


class KeptKind(msgspec.Struct, frozen=True, rename="camel"):
    """A kind that is only kept.

    fields: what clients may select objects by.
    counts_all: whether the generation counts the changes of all members, as of a kind without a spec.
    new_status: the status of a new object; absent: what the writer says.
    but: what a user may count on, and does not happen here.

    The others are those of `registry.resources.Rules`.
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
def read_kept() -> Mapping[str, KeptKind]:
    """Return the entries by resource, in the order of the file."""
    return msgspec.json.decode(_DATA.read_bytes(), type=dict[str, KeptKind])
