"""Keep what queues may use, what evictions undid of their use, and what nodes have, over time."""

from array import array
from collections.abc import Mapping

QuotaKey = tuple[str, str, str]
"""A queue, a flavor and a resource."""


class Steps:
    """Changes of numbered amounts, in three arrays: when, which amount, and by how much."""

    def __init__(self) -> None:
        self.times, self.numbers, self.amounts = array("d"), array("q"), array("q")

    def add(self, at: float, number: int, amount: int) -> None:
        """Add the change of an amount. number: the number of the amount."""
        self.times.append(at)
        self.numbers.append(number)
        self.amounts.append(amount)


class QuotaLedger:
    """The nominal quotas over time, and the use that was lost by evictions.

    keys: by number. changes: when the quota of which key changed, and by how much. losses: the same about lost use.
    """

    def __init__(self) -> None:
        self._keys: dict[QuotaKey, int] = {}
        self._nominal: dict[int, int] = {}
        self.changes = Steps()
        self.losses = Steps()

    @property
    def keys(self) -> list[QuotaKey]:
        """The keys, by number."""
        return list(self._keys)

    def set(self, at: float, key: QuotaKey, nominal: int) -> None:
        """Record that a queue has this nominal quota of a flavor and resource from `at` on."""
        number = self._number(key)
        if change := nominal - self._nominal.get(number, 0):
            self.changes.add(at, number, change)
        self._nominal[number] = nominal

    def lose(self, key: QuotaKey, start: float, end: float, amount: int) -> None:
        """Record that the use of an amount of quota from `start` to `end` was lost by an eviction."""
        number = self._number(key)
        self.losses.add(start, number, amount)
        self.losses.add(end, number, -amount)

    def _number(self, key: QuotaKey) -> int:
        return self._keys.setdefault(key, len(self._keys))


class CapacityLedger:
    """The amounts that all nodes have together, over time. resources: by number."""

    def __init__(self) -> None:
        self._amounts: dict[str, Mapping[str, int]] = {}  # by cluster
        self._numbers: dict[str, int] = {}
        self.changes = Steps()

    @property
    def resources(self) -> list[str]:
        """The resources, by number."""
        return list(self._numbers)

    def set(self, at: float, amounts: Mapping[str, int], cluster: str = "") -> None:
        """Record that the nodes of a cluster have these total amounts from `at` on."""
        before = self._amounts.get(cluster, {})
        for resource in {**before, **amounts}:
            number = self._numbers.setdefault(resource, len(self._numbers))
            if change := amounts.get(resource, 0) - before.get(resource, 0):
                self.changes.add(at, number, change)
        self._amounts[cluster] = dict(amounts)
