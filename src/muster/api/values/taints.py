"""Match taints with the tolerations of a pod."""

from collections.abc import Iterable

from muster.api.core import Taint, Toleration

# The effects that keep a pod off a node. PreferNoSchedule only discourages it.
_HARD_EFFECTS = ("NoSchedule", "NoExecute")


def find_untolerated_taint(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps the pod off the node; None if there is none.

    Upstream: FindMatchingUntoleratedTaint.
    """
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in _HARD_EFFECTS and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def count_unwelcome(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    """Return the number of PreferNoSchedule taints that a pod with these tolerations does not tolerate."""
    tolerations = tuple(tolerations)
    soft = (taint for taint in taints if taint.effect == "PreferNoSchedule")
    return sum(not any(_tolerates(toleration, taint) for toleration in tolerations) for taint in soft)


def compute_tolerated_seconds(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> float | None:
    """Return how many seconds a pod tolerates a node's NoExecute taints: 0 for not at all, None for forever.

    The rule follows upstream's taint eviction (GetMatchingTolerations). The first toleration of each taint counts,
    and among the taints the one with the shortest time.
    """
    tolerations = tuple(tolerations)
    shortest: float | None = None
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        toleration = next((one for one in tolerations if _tolerates(one, taint)), None)
        if toleration is None:
            return 0.0
        if toleration.toleration_seconds is not None:
            seconds = max(float(toleration.toleration_seconds), 0.0)
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value
