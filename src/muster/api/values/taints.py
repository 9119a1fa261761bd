"""Taints, and the tolerations that let a pod past them."""

from collections.abc import Iterable

from muster.api.core import Taint, Toleration

# Effects that keep a pod away from a node; PreferNoSchedule is only advice.
_HARD_EFFECTS = ("NoSchedule", "NoExecute")


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod away, if there is one (upstream FindMatchingUntoleratedTaint)."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in _HARD_EFFECTS and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def unwelcome(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    """How many taints ask the pod to stay away if it can."""
    tolerations = tuple(tolerations)
    soft = (taint for taint in taints if taint.effect == "PreferNoSchedule")
    return sum(not any(_tolerates(toleration, taint) for toleration in tolerations) for taint in soft)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value
