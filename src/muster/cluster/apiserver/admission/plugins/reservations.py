"""What PodGroups have set aside of a quota for their pods, and how much of it these have not taken yet. Pure.

A group counts as much as it has set aside or its pods use, whichever is more, of each resource for itself: its pods
take from what is set aside first, and only what is beyond is paid anew. Nothing of it is written down anywhere.
"""

from collections import Counter
from collections.abc import Mapping

from muster.cluster.apiserver.admission.plugins.quotausage import Measure


class Reservations:
    """Those of one namespace.

    untaken: what is set aside and not in use, of all groups; nothing in it is 0 or less.
    """

    def __init__(self) -> None:
        self.untaken = Counter[str]()
        self._reserved: dict[str, Mapping[str, int]] = {}
        self._taken: dict[str, Counter[str]] = {}

    def exchange(self, old: Measure | None, new: Measure | None) -> None:
        """Count an object as it is instead of as it was."""
        groups = {measure.group for measure in (old, new) if measure is not None and measure.group}
        for group in groups:
            self.untaken -= self._left(group)
        for measure, sign in ((old, -1), (new, 1)):
            if measure is not None and measure.group:
                self._count(measure, sign)
        for group in groups:
            self.untaken += self._left(group)

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

    def _left(self, group: str) -> Counter[str]:
        return Counter(self._reserved.get(group)) - self._taken.get(group, _NOTHING)


_NOTHING = Counter[str]()
