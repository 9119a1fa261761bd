"""Find the most pods with which a workload could start now, if not with all (partial admission, Kueue KEP-420)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from muster.queueing.model import PodSet

T = TypeVar("T")


def find_most_pods(podsets: Sequence[PodSet], attempt: Callable[[tuple[int, ...]], T | None]) -> T | None:
    """Return the result of `attempt` for the most pods with which it succeeds; None if it never does.

    All podsets lose pods in the same proportion, from `count` to `least`. The search is binary, with upstream's steps
    (podset_reducer.go), so its result equals upstream's even if some smaller number fails.
    """
    spare = [max(0, podset.count - podset.least) if podset.least is not None else 0 for podset in podsets]
    steps = sum(spare)
    best, low, high = None, 0, steps + 1 if steps else 0
    while low < high:
        step = (low + high) // 2
        counts = tuple(podset.count - pods * step // steps for podset, pods in zip(podsets, spare, strict=True))
        if (outcome := attempt(counts)) is not None:
            best, high = outcome, step
        else:
            low = step + 1
    return best
