"""Keep the waiting gangs in order, so that a change of a tenant's share does not require sorting all gangs again.

Broken gangs, which run without some of their pods, come first. The others are ordered by priority, the highest first,
then by their tenant's share of the cluster, the smallest first, then by age. So the gangs of one tenant and one
priority form a line whose order never changes. If the share of a tenant changes, only whole lines are reordered.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from datetime import datetime
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Rank: TypeAlias = tuple[bool, int, float, datetime, str]

# Returns the tenant's share of the resource of which it uses the largest part.
GetShare: TypeAlias = Callable[[str], float]

_Level: TypeAlias = tuple[bool, int]
_Line: TypeAlias = list[tuple[datetime, str]]


class OrderCriteria(Struct, frozen=True):
    """The criteria of a gang in the order.

    broken: whether the gang runs without some of its pods.
    tenant: the gang's tenant.
    created: the creation time of its oldest pod.
    """

    broken: bool
    priority: int
    tenant: str
    created: datetime


def make_rank(key: str, criteria: OrderCriteria, share: float) -> Rank:
    """Return the sort key of a gang.

    share: its tenant's dominant share, from 0 to 1 of a resource of the cluster.
    """
    return not criteria.broken, -criteria.priority, share, criteria.created, key


class GangOrder:
    """The waiting gangs, in one line for each tenant and priority."""

    def __init__(self) -> None:
        self._lines: dict[_Level, dict[str, _Line]] = {}
        self._tenants: Counter[str] = Counter()  # by tenant, how many of its gangs wait

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def has_several_tenants(self) -> bool:
        """Whether gangs of more than one tenant wait, so that each start may change their order."""
        return len(self._tenants) > 1

    def add(self, key: str, criteria: OrderCriteria) -> None:
        """Add a gang. Its criteria determine its position."""
        lines = self._lines.setdefault(_find_level(criteria), {})
        insort(lines.setdefault(criteria.tenant, []), (criteria.created, key))
        self._tenants[criteria.tenant] += 1

    def remove(self, key: str, criteria: OrderCriteria) -> None:
        """Remove a gang that was added with these criteria."""
        level, tenant = _find_level(criteria), criteria.tenant
        lines = self._lines[level]
        line = lines[tenant]
        del line[bisect_left(line, (criteria.created, key))]
        if not line:
            del lines[tenant]
        if not lines:
            del self._lines[level]
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]

    def get_first(self, criteria: OrderCriteria) -> tuple[str, OrderCriteria] | None:
        """Return the first gang of this tenant and priority, with its criteria; None if there is none."""
        line = self._lines.get(_find_level(criteria), {}).get(criteria.tenant)
        return (line[0][1], replace(criteria, created=line[0][0])) if line else None

    def iterate(self, get_share: GetShare) -> Iterator[str]:
        """Yield all gangs: broken ones first, then by priority, by the tenant's share, and by age."""
        for _, lines in sorted(self._lines.items(), key=itemgetter(0)):
            shares = sorted(((get_share(tenant), line) for tenant, line in lines.items()), key=itemgetter(0))
            for _, equal in groupby(shares, key=itemgetter(0)):
                together = [line for _, line in equal]
                for _, key in together[0] if len(together) == 1 else merge(*together):
                    yield key

    def iterate_before(self, rank: Rank, get_share: GetShare) -> Iterator[str]:
        """Yield the gangs that come before a rank, in arbitrary order."""
        level, share, place = rank[:2], rank[2], rank[3:]
        for other, lines in self._lines.items():
            if other > level:
                continue
            for tenant, line in lines.items():
                its_share = share if other < level else get_share(tenant)
                if its_share > share:
                    continue
                until = bisect_left(line, place) if (other, its_share) == (level, share) else len(line)
                for index in range(until):
                    yield line[index][1]


class GangClasses:
    """The waiting gangs by equivalence class. The first gang of each class is found without reading the others."""

    def __init__(self) -> None:
        self._classes: dict[Hashable, GangOrder] = {}
        self._firsts = GangOrder()  # the first gang of each class, tenant and priority
        self._alike: dict[str, Hashable] = {}  # the class of each gang in `_firsts`

    def add(self, key: str, alike: Hashable, criteria: OrderCriteria) -> None:
        """Add a gang to a class. Its criteria determine its position."""
        gangs = self._classes.setdefault(alike, GangOrder())
        before = gangs.get_first(criteria)
        gangs.add(key, criteria)
        self._replace_first(alike, before, gangs.get_first(criteria))

    def remove(self, key: str, alike: Hashable, criteria: OrderCriteria) -> None:
        """Remove a gang that was added with this class and these criteria."""
        gangs = self._classes[alike]
        before = gangs.get_first(criteria)
        gangs.remove(key, criteria)
        self._replace_first(alike, before, gangs.get_first(criteria))
        if not gangs:
            del self._classes[alike]

    def _replace_first(
        self, alike: Hashable, before: tuple[str, OrderCriteria] | None, after: tuple[str, OrderCriteria] | None
    ) -> None:
        if before == after:
            return
        if before is not None:
            self._firsts.remove(*before)
            del self._alike[before[0]]
        if after is not None:
            self._firsts.add(*after)
            self._alike[after[0]] = alike

    def list_firsts(self, get_share: GetShare) -> list[str]:
        """Return the first gang of each class, in order."""
        firsts: dict[Hashable, str] = {}
        for key in self._firsts.iterate(get_share):
            firsts.setdefault(self._alike[key], key)
        return list(firsts.values())

    def iterate(self, alike: Hashable, get_share: GetShare) -> Iterator[str]:
        """Yield the gangs of a class, in order."""
        gangs = self._classes.get(alike)
        return gangs.iterate(get_share) if gangs is not None else iter(())


def _find_level(criteria: OrderCriteria) -> _Level:
    return not criteria.broken, -criteria.priority
