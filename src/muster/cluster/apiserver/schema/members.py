"""Compile the members of an object's schema when a document first has them.

A schema declares hundreds of members, of which most documents have a few: compiling all takes longer than a job.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Compiled = TypeVar("Compiled")


class LazyMembers(dict[str, Compiled | None]):
    """The compiled schemas of an object's members by name. rest: that of all undeclared members, if any."""

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
