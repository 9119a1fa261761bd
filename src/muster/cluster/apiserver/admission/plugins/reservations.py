"""Compute how much of the reservations of PodGroups their pods do not use yet. Pure.

For each resource, the larger of a group's reservation and its pods' usage counts. So pods use the reservation first,
and only the excess uses more of a quota. No object records any of this.
"""

from collections import Counter
from collections.abc import Mapping

from muster.cluster.apiserver.admission.plugins.quotausage import Measure


class Reservations:
    """The reservations of the PodGroups in one namespace.

    untaken: how much all groups reserve and do not use; every amount is above 0.
    """

    def __init__(self) -> None:
        self.untaken = Counter[str]()
        self._reserved: dict[str, Mapping[str, int]] = {}
        self._taken: dict[str, Counter[str]] = {}

    def exchange(self, old: Measure | None, new: Measure | None) -> None:
        """Replace the measure of an object, and update `untaken`. None means that the object does not exist."""
        groups = {measure.group for measure in (old, new) if measure is not None and measure.group}
        for group in groups:
            self.untaken -= self._compute_rest(group)
        for measure, sign in ((old, -1), (new, 1)):
            if measure is not None and measure.group:
                self._count(measure, sign)
        for group in groups:
            self.untaken += self._compute_rest(group)

    def _count(self, measure: Measure, sign: int) -> None:
        group = measure.group
        if measure.reserves is not None:
            self._reserved[group] = measure.reserves if sign > 0 else {}
            if not self._reserved[group]:
                del self._reserved[group]
            return
        taken = self._taken.setdefault(group, Counter())
        for name, number in measure.usage.items():
            taken[name] += sign * number
        if not +taken:
            del self._taken[group]

    def _compute_rest(self, group: str) -> Counter[str]:
        return Counter(self._reserved.get(group)) - self._taken.get(group, _NOTHING)


_NOTHING = Counter[str]()
