"""Track the selections of devices that claims request. Each is a resource of every node with devices.

Users choose selectors freely, so at most `MOST_SELECTIONS` selections are tracked at a time. A selection that no claim
requests any more stays until another one needs its slot, because the next job often requests the same one. The claims
of one namespace have at most `MOST_OF_NAMESPACE` tracked selections, so that no namespace takes all slots.
"""

from collections import Counter, defaultdict
from collections.abc import ItemsView, Iterator, Sequence
from typing import Final

from msgspec import Struct

from muster.gang.nodes.devicerequests import Selection

MOST_SELECTIONS: Final = 256
MOST_OF_NAMESPACE: Final = 64


class FollowedChange(Struct, frozen=True):
    """The effect of a claim's change: whether a new selection is tracked, and which resources are dropped."""

    grew: bool = False
    forgotten: tuple[str, ...] = ()


class Selections:
    """The tracked selections by the name of their resource, with the claims that request them."""

    def __init__(self) -> None:
        self._followed: dict[str, Selection] = {}
        self._wanted: dict[str, Sequence[Selection]] = {}  # the selections that each claim requests
        self._wanting = Counter[str]()  # the number of claims that request each resource
        # By namespace, the claims with a selection that is not tracked because all slots are taken, oldest first.
        self._left_out = defaultdict[str, dict[str, None]](dict)
        # By namespace, the number of its tracked claims that request each resource.
        self._of_namespace = defaultdict[str, Counter[str]](Counter)

    def __contains__(self, resource: str) -> bool:
        return resource in self._followed

    def __iter__(self) -> Iterator[str]:
        return iter(self._followed)

    def __getitem__(self, resource: str) -> Selection:
        return self._followed[resource]

    def items(self) -> ItemsView[str, Selection]:
        """Return the tracked selections by the name of their resource."""
        return self._followed.items()

    def set_claim(self, key: str, selections: Sequence[Selection]) -> FollowedChange:
        """Record the selections that a claim now requests, none if it was deleted; return what changed.

        The selections of a claim that requests more than `MOST_OF_NAMESPACE` are not tracked.
        """
        selections = selections if len(selections) <= MOST_OF_NAMESPACE else ()
        if selections == self._wanted.get(key, ()):
            return FollowedChange()
        before, namespace = self._wanted.pop(key, ()), _parse_namespace(key)
        if key in self._left_out[namespace]:
            del self._left_out[namespace][key]
        else:
            self._release(namespace, before)
        if not self._left_out[namespace]:
            del self._left_out[namespace]
        self._wanting.update(one.resource for one in selections)
        for one in before:
            self._wanting[one.resource] -= 1
            if not self._wanting[one.resource]:
                del self._wanting[one.resource]
        if selections:
            self._wanted[key] = selections
            self._left_out[namespace][key] = None
        count_before = len(self._followed)
        if not self._left_out or self._follow():
            return FollowedChange(len(self._followed) > count_before)
        forgotten = self._forget_unused()
        self._follow()
        return FollowedChange(len(self._followed) > count_before - len(forgotten), forgotten)

    def _follow(self) -> bool:
        """Track selections that were left out so far, while fewer than `MOST_SELECTIONS` are tracked.

        Return False if this limit left some out. A namespace gets at most `MOST_OF_NAMESPACE` in any case.
        """
        for namespace in list(self._left_out):
            for key in list(self._left_out[namespace]):
                wanted = self._wanted[key]
                if not self._is_within_share(namespace, wanted):
                    break
                for one in wanted:
                    if one.resource not in self._followed and len(self._followed) >= MOST_SELECTIONS:
                        return False
                    self._followed.setdefault(one.resource, one)
                self._of_namespace[namespace].update(one.resource for one in wanted)
                del self._left_out[namespace][key]
            if not self._left_out[namespace]:
                del self._left_out[namespace]
        return True

    def _is_within_share(self, namespace: str, selections: Sequence[Selection]) -> bool:
        has = self._of_namespace.get(namespace, Counter())
        return len(has) + sum(one.resource not in has for one in selections) <= MOST_OF_NAMESPACE

    def _release(self, namespace: str, selections: Sequence[Selection]) -> None:
        """Subtract a claim's selections from the tracked selections of its namespace."""
        of_namespace = self._of_namespace[namespace]
        for one in selections:
            of_namespace[one.resource] -= 1
            if not of_namespace[one.resource]:
                del of_namespace[one.resource]
        if not of_namespace:
            del self._of_namespace[namespace]

    def _forget_unused(self) -> tuple[str, ...]:
        unused = tuple(resource for resource in self._followed if not self._wanting[resource])
        for resource in unused:
            del self._followed[resource]
        return unused


def _parse_namespace(key: str) -> str:
    return key.partition("/")[0]
