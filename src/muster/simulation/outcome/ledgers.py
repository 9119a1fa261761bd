"""Record the quotas of queues, the wasted use of these quotas, and the capacity of nodes over time."""

from array import array
from collections.abc import Mapping

from muster.queueing.model import FlavorResource

QuotaKey = tuple[str, str, str]
"""A queue, a flavor and a resource."""


class Steps:
    """Changes of numbered amounts, in three arrays: the time, the number of the amount, and the difference."""

    def __init__(self) -> None:
        self.times, self.numbers, self.amounts = array("d"), array("q"), array("q")

    def add(self, at: float, number: int, amount: int) -> None:
        """Add a change of an amount.

        number: the number of the amount.
        """
        self.times.append(at)
        self.numbers.append(number)
        self.amounts.append(amount)


class QuotaLedger:
    """The nominal quotas over time, and the use of quota that evictions and interruptions wasted.

    keys: the quotas, by number.
    changes: the changes of the quotas.
    presence: 1 when a queue gets a quota, even of 0, and -1 when it no longer has this quota.
    losses: the changes of the use that evictions and interruptions wasted.
    """

    def __init__(self) -> None:
        self._keys: dict[QuotaKey, int] = {}
        self._nominal: dict[str, Mapping[FlavorResource, int]] = {}  # the current quotas of each queue
        self.changes = Steps()
        self.presence = Steps()
        self.losses = Steps()

    @property
    def keys(self) -> list[QuotaKey]:
        """The quotas (queue, flavor, resource); the position of each is its number in the recorded changes."""
        return list(self._keys)

    def set(self, at: float, queue: str, nominal: Mapping[FlavorResource, int]) -> None:
        """Record that a queue has these nominal quotas and no others from `at` on."""
        before = self._nominal.get(queue, {})
        for part in {**before, **nominal}:
            number = self._assign_number((queue, *part))
            if change := nominal.get(part, 0) - before.get(part, 0):
                self.changes.add(at, number, change)
            if change := (part in nominal) - (part in before):
                self.presence.add(at, number, change)
        self._nominal[queue] = nominal

    def lose(self, key: QuotaKey, start: float, end: float, amount: int) -> None:
        """Record that an eviction or interruption wasted the use of an amount of quota from `start` to `end`."""
        number = self._assign_number(key)
        self.losses.add(start, number, amount)
        self.losses.add(end, number, -amount)

    def _assign_number(self, key: QuotaKey) -> int:
        return self._keys.setdefault(key, len(self._keys))


class CapacityLedger:
    """The total capacity of all nodes, over time.

    resources: the names of the resources, by number.
    """

    def __init__(self) -> None:
        self._amounts: dict[str, Mapping[str, int]] = {}  # the amounts of each cluster
        self._numbers: dict[str, int] = {}
        self.changes = Steps()

    @property
    def resources(self) -> list[str]:
        """The resources; the position of each is its number in the recorded changes."""
        return list(self._numbers)

    def set(self, at: float, amounts: Mapping[str, int], cluster: str = "") -> None:
        """Record that the nodes of a cluster have these total amounts from `at` on."""
        before = self._amounts.get(cluster, {})
        for resource in {**before, **amounts}:
            number = self._numbers.setdefault(resource, len(self._numbers))
            if change := amounts.get(resource, 0) - before.get(resource, 0):
                self.changes.add(at, number, change)
        self._amounts[cluster] = dict(amounts)
