"""How many of a gang's pods are enough, and which of them go when there is no room for all."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from muster.gang.placement import Placement, Refusal
from muster.gang.shapes import Shape

Place = Callable[[Mapping[Shape, int]], Placement | Refusal]


class Quorum(Struct, frozen=True):
    """Of these pods, at least so many have to get a node. pods: their UIDs, of which there are enough."""

    pods: frozenset[str]
    least: int


class Chosen(Struct, frozen=True):
    """The pods that go, by UID, in the order given, and where."""

    pods: tuple[str, ...]
    placement: Placement


def place_enough(place: Place, pods: Mapping[str, Shape], quorums: Sequence[Quorum]) -> Chosen | Refusal:
    """All pods if they fit together, else as many as fit and meet every quorum; without quorums it is all or none.

    Where pods have to stay behind, the later ones do. The refusal is that of the fewest pods that would do.
    """
    outcome = place(Counter(pods.values()))
    if isinstance(outcome, Placement):
        return Chosen(tuple(pods), outcome)
    if not quorums or any(quorum.least == len(pods) for quorum in quorums):
        return outcome
    first = fewest(pods, quorums)
    least = place(_shapes(pods, first))
    shapes = list(dict.fromkeys(pods.values()))
    attempts = (
        [(first, shapes)]
        if isinstance(least, Placement)
        else [(frozenset[str](), shapes), (frozenset[str](), sorted(shapes, key=lambda shape: shape.requests))]
    )
    for start, order in attempts:
        chosen, placement = _add(place, pods, start, order)
        if placement is not None and all(len(chosen & quorum.pods) >= quorum.least for quorum in quorums):
            return Chosen(tuple(uid for uid in pods if uid in chosen), placement)
    return least if isinstance(least, Refusal) else outcome


def fewest(pods: Iterable[str], quorums: Sequence[Quorum]) -> frozenset[str]:
    """The first pods that meet every quorum; the small ones are met first, and count for the large."""
    order, chosen = list(pods), set[str]()
    for quorum in sorted(quorums, key=lambda quorum: len(quorum.pods)):
        lacking = quorum.least - len(chosen & quorum.pods)
        others = [uid for uid in order if uid in quorum.pods and uid not in chosen]
        chosen.update(others[: max(lacking, 0)])
    return frozenset(chosen)


def _add(
    place: Place, pods: Mapping[str, Shape], start: frozenset[str], order: Sequence[Shape]
) -> tuple[frozenset[str], Placement | None]:
    """Add as many pods as fit, one shape after the other, the earlier ones first."""
    outcome = place(_shapes(pods, start)) if start else None
    chosen, placement = start, outcome if isinstance(outcome, Placement) else None
    for shape in order:
        uids = [uid for uid, its in pods.items() if its == shape and uid not in start]
        low, high = 0, len(uids)
        while low < high:
            middle = (low + high + 1) // 2
            outcome = place(_shapes(pods, chosen | set(uids[:middle])))
            if isinstance(outcome, Placement):
                low, placement = middle, outcome
            else:
                high = middle - 1
        chosen |= set(uids[:low])
    return chosen, placement


def _shapes(pods: Mapping[str, Shape], chosen: Iterable[str]) -> Counter[Shape]:
    return Counter(pods[uid] for uid in chosen)
