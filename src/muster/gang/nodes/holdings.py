"""Store the use of running pods as arrays, to compute the room that would be free without some of them."""

from collections.abc import Iterable, Sequence
from typing import Self

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.shapes import Amounts


class Holdings(Struct, frozen=True, eq=False):
    """The node use of several holders (gangs), in order.

    nodes: the node index of each pod, holder by holder.
    amounts: the amounts by resource row and pod.
    starts: the position of each holder's first pod, and finally the number of all pods.
    size: the number of nodes.
    """

    nodes: Ints
    amounts: Ints
    starts: Ints
    size: int

    @classmethod
    def of(cls, capacity: Capacity, holders: Iterable[Sequence[str]]) -> Self:
        """Return the holdings of holders, given by the UIDs of their pods. Pods on removed nodes use nothing."""
        columns: dict[Amounts, int] = {}
        nodes, codes, starts = [], [], [0]
        for pods in holders:
            for node, requests in capacity.held(pods):
                nodes.append(node)
                codes.append(columns.setdefault(requests, len(columns)))
            starts.append(len(nodes))
        rows = capacity.rows()
        each = np.zeros((len(rows), len(columns)), np.int64)
        for requests, column in columns.items():
            for resource, amount in requests:
                if (row := rows.get(resource)) is not None:
                    each[row, column] = amount
        places = np.array(nodes, np.int64)
        amounts = each[:, np.array(codes, np.int64)]
        return cls(places, amounts, np.array(starts, np.int64), len(capacity.names))

    def freed(self, first: int | None = None) -> Ints:
        """Return the room freed by the first `first` holders (None: by all), as `extra_use` of `place`.

        Freed amounts are negative.
        """
        end = len(self.nodes) if first is None else int(self.starts[first])
        freed = np.zeros((len(self.amounts), self.size), np.int64)
        for row, amounts in enumerate(self.amounts):
            np.subtract.at(freed[row], self.nodes[:end], amounts[:end])
        return freed
