"""Decide how many pods of a gang suffice, and which pods start if there is no room for all of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from muster.gang.placement import Placement, Refusal
from muster.gang.shapes import Shape

Place = Callable[[Mapping[Shape, int]], Placement | Refusal]


class Quorum(Struct, frozen=True):
    """A minimum number of pods: at least `least` of the pods with these UIDs must have nodes at the same time."""

    pods: frozenset[str]
    least: int


class Chosen(Struct, frozen=True):
    """The UIDs of the pods of a gang that start, in the given order, and their placement."""

    pods: tuple[str, ...]
    placement: Placement


def place_enough(place: Place, pods: Mapping[str, Shape], quorums: Sequence[Quorum]) -> Chosen | Refusal:
    """Place all pods if they fit, else as many as fit and meet every quorum; return these pods and their placement.

    Without quorums, place all or none. If not all pods fit, the last pods are left out. A refusal describes the pods
    from `find_fewest`.
    """
    outcome = place(Counter(pods.values()))
    if isinstance(outcome, Placement):
        return Chosen(tuple(pods), outcome)
    if not quorums or any(quorum.least == len(pods) for quorum in quorums):
        return outcome
    first = find_fewest(pods, quorums)
    least = place(_count_shapes(pods, first))
    shapes = list(dict.fromkeys(pods.values()))
    by_size = sorted(shapes, key=lambda shape: shape.requests)
    smallest = find_fewest(sorted(pods, key=lambda uid: pods[uid].requests), quorums)
    attempts = (
        [(first, shapes)]
        if isinstance(least, Placement)
        else [(frozenset[str](), shapes), (frozenset[str](), by_size), (smallest, shapes)]
    )
    for start, order in attempts:
        chosen, placement = _add_fitting(place, pods, start, order)
        if placement is not None and all(len(chosen & quorum.pods) >= quorum.least for quorum in quorums):
            return Chosen(tuple(uid for uid in pods if uid in chosen), placement)
    return least if isinstance(least, Refusal) else outcome


def find_fewest(pods: Iterable[str], quorums: Sequence[Quorum]) -> frozenset[str]:
    """Return pods that together meet every quorum: for each quorum, no more than it needs, earlier pods first.

    Small quorums are met first, and their pods count for larger quorums.
    """
    order, chosen = list(pods), set[str]()
    for quorum in sorted(quorums, key=lambda quorum: len(quorum.pods)):
        lacking = quorum.least - len(chosen & quorum.pods)
        others = [uid for uid in order if uid in quorum.pods and uid not in chosen]
        chosen.update(others[: max(lacking, 0)])
    return frozenset(chosen)


def _add_fitting(
    place: Place, pods: Mapping[str, Shape], start: frozenset[str], order: Sequence[Shape]
) -> tuple[frozenset[str], Placement | None]:
    """Add as many pods to `start` as fit, one shape after another; return the pods and their placement.

    Of the pods of a shape, earlier pods are added first.
    """
    outcome = place(_count_shapes(pods, start)) if start else None
    chosen, placement = start, outcome if isinstance(outcome, Placement) else None
    for shape in order:
        uids = [uid for uid, its in pods.items() if its == shape and uid not in start]
        low, high = 0, len(uids)
        while low < high:
            middle = (low + high + 1) // 2
            outcome = place(_count_shapes(pods, chosen | set(uids[:middle])))
            if isinstance(outcome, Placement):
                low, placement = middle, outcome
            else:
                high = middle - 1
        chosen |= set(uids[:low])
    return chosen, placement


def _count_shapes(pods: Mapping[str, Shape], chosen: Iterable[str]) -> Counter[Shape]:
    return Counter(pods[uid] for uid in chosen)
