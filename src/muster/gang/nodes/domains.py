"""Compute the domains of a topology from the labels of nodes, such as racks in blocks in zones, as integer arrays.

The name of a domain consists of its own value and the values of all wider levels, so that two blocks may each have a
rack "1". The domains of a level are numbered in the order of their names, so that decisions by number do not depend on
the order in which nodes were added. A node that lacks a label is in no domain of that level, nor of a narrower one.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Ints

# The domain number of a node outside all domains.
NOWHERE = -1


class DomainLevel(Struct, frozen=True, eq=False):
    """The domains of one level of a topology.

    label: the node label whose values make the domains.
    names: the values from the widest level to this one, by domain number.
    of_node: the domain number of each node, by node index.
    parents: the number of the enclosing domain in the next wider level, by domain number; 0 at the widest level.
    """

    label: str
    names: tuple[tuple[str, ...], ...]
    of_node: Ints
    parents: Ints

    def totals(self, amounts: Ints) -> Ints:
        """Return the sum of the amounts of a domain's nodes, by domain number.

        amounts: an amount for each node, by node index.
        """
        return sum_by_number(self.of_node, amounts, len(self.names))


def list_levels(nodes: Sequence[Mapping[str, str] | None], labels: Sequence[str]) -> tuple[DomainLevel, ...]:
    """Return the levels of a topology, widest first.

    nodes: the labels of each node by index; None for an unused index.
    labels: the label keys of the levels, widest first.
    """
    levels: list[DomainLevel] = []
    paths: list[tuple[str, ...] | None] = [None if node is None else () for node in nodes]
    above: dict[tuple[str, ...], int] = {(): 0}
    for label in labels:
        paths = [_extend_path(path, node, label) for path, node in zip(paths, nodes, strict=True)]
        names = tuple(sorted({path for path in paths if path is not None}))
        number = {name: i for i, name in enumerate(names)}
        of_node = np.array([NOWHERE if path is None else number[path] for path in paths], np.int64)
        parents = np.array([above[name[:-1]] for name in names], np.int64)
        levels.append(DomainLevel(label, names, of_node, parents))
        above = number
    return tuple(levels)


def sum_by_number(numbers: Ints, amounts: Ints, size: int) -> Ints:
    """Add up amounts in groups; return the sum of each group, by the number of the group.

    numbers: the group number of each amount; `NOWHERE` leaves the amount out.
    size: the number of groups.
    """
    inside = numbers >= 0
    sums = np.zeros(size, np.int64)
    np.add.at(sums, numbers[inside], amounts[inside])
    return sums


def _extend_path(path: tuple[str, ...] | None, node: Mapping[str, str] | None, label: str) -> tuple[str, ...] | None:
    value = node.get(label) if node is not None else None
    return None if path is None or value is None else (*path, value)
