"""Compile the schemas of an object's members when a document first contains them.

A schema declares hundreds of members, and most documents have only a few. Compiling all would take longer than a job.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Compiled = TypeVar("Compiled")


class LazyMembers(dict[str, Compiled | None]):
    """The compiled schemas of an object's members, by name.

    rest: the schema of all undeclared members; None if they are not allowed.
    """

    def __init__(
        self, schemas: Mapping[str, Any], compile_member: Callable[[str], Compiled], rest: Compiled | None = None
    ) -> None:
        super().__init__()
        self._schemas, self._compile_member, self._rest = schemas, compile_member, rest

    def __missing__(self, name: str) -> Compiled | None:
        if name not in self._schemas:
            return self._rest
        compiled = self[name] = self._compile_member(name)
        return compiled
