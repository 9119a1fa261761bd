"""Domains of a topology as integer arrays: racks in blocks in zones, as the labels of nodes say.

A domain is named by its values at its own level and at all wider ones, so that two blocks may each have a rack "1".
Domains of a level are numbered in the order of their names: what is decided by number does not depend on the order in
which nodes were heard of. A node that lacks a label is in no domain of that level, nor of a narrower one.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Ints = npt.NDArray[np.int64]

# Where a node is that is in no domain.
NOWHERE = -1


class Level(Struct, frozen=True, eq=False):
    """The domains of one level.

    label: of the nodes, whose values tell them apart.
    names: their values, from the widest level to this one; by number.
    of_node: the number of the domain of each node, by its index.
    parents: the number of the domain of the next wider level that each is in; 0 at the widest.
    """

    label: str
    names: tuple[tuple[str, ...], ...]
    of_node: Ints
    parents: Ints

    def totals(self, amounts: Ints) -> Ints:
        """What the nodes of each domain have together."""
        return summed(self.of_node, amounts, len(self.names))


def domains(nodes: Sequence[Mapping[str, str] | None], labels: Sequence[str]) -> tuple[Level, ...]:
    """The levels of a topology, from the widest to the narrowest.

    nodes: their labels, by index; None where no node is.
    """
    levels: list[Level] = []
    paths: list[tuple[str, ...] | None] = [None if node is None else () for node in nodes]
    above: dict[tuple[str, ...], int] = {(): 0}
    for label in labels:
        paths = [_within(path, node, label) for path, node in zip(paths, nodes, strict=True)]
        names = tuple(sorted({path for path in paths if path is not None}))
        number = {name: i for i, name in enumerate(names)}
        of_node = np.array([NOWHERE if path is None else number[path] for path in paths], np.int64)
        parents = np.array([above[name[:-1]] for name in names], np.int64)
        levels.append(Level(label, names, of_node, parents))
        above = number
    return tuple(levels)


def summed(numbers: Ints, amounts: Ints, size: int) -> Ints:
    """Sums of amounts by number; those of `NOWHERE` are left out."""
    inside = numbers >= 0
    sums = np.zeros(size, np.int64)
    np.add.at(sums, numbers[inside], amounts[inside])
    return sums


def _within(path: tuple[str, ...] | None, node: Mapping[str, str] | None, label: str) -> tuple[str, ...] | None:
    value = node.get(label) if node is not None else None
    return None if path is None or value is None else (*path, value)
