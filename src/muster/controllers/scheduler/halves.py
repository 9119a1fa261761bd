"""Decide about half-bound gangs: a pod whose binding was refused gets another node, or the bound pods are deleted.

Bound pods that a controller recreates are deleted as soon as the gang's unbound pods no longer fit. Bound pods without
a controller would be lost. So their gang first gets some time, in which its unbound pods are placed before all others.
"""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.core import Pod
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.binding import Refusals, are_recreated
from muster.controllers.scheduler.state import REST_SECONDS, SchedulerState

# The number of refused bindings of a pod after which its gang starts over.
MOST_REFUSED = 3


class TakeBack(Struct, frozen=True):
    """The decision to delete a gang's bound pods.

    why: the reason, for users.
    again: whether the pods' controllers recreate them.
    """

    pods: Sequence[Pod]
    why: str
    again: bool


def close_refused_nodes(state: SchedulerState, ask: GangTurn, refusals: Refusals, now: float) -> bool:
    """Exclude each node for the pod that the server refused to bind there; return whether the gang must start over.

    now: the monotonic time in seconds.
    """
    half_bound = state.half_bound
    for uid, (node, _) in refusals.items():
        state.roster.unassume(uid)
        half_bound.closed.setdefault(uid, {})[node] = now + REST_SECONDS
    state.retry_waiting()
    if max(len(half_bound.closed.get(uid, ())) for uid in refusals) < MOST_REFUSED:
        state.agenda.repair(ask.key)
        return False
    half_bound.resting[ask.key] = now + REST_SECONDS
    for uid in refusals:
        half_bound.closed.pop(uid, None)
    state.agenda.gang_after(ask.key, REST_SECONDS)
    return True


def decide_take_back(
    state: SchedulerState, key: str, why: str, now: float, *, may_change: bool = False
) -> TakeBack | None:
    """Decide whether to delete the bound pods of a half-bound gang whose unbound pods fit nowhere.

    Return None if the gang still gets time, in which case it is queued for later, or if it is not half bound.

    why: why the unbound pods fit nowhere, for users.
    now: the monotonic time in seconds.
    may_change: whether missing pods of the gang may still be created.
    """
    gang = state.roster.gangs.get(key)
    half = state.carriers.half_bound(key, gang) if gang is not None else []
    if gang is None or not half:
        state.half_bound.since.pop(key, None)
        return None
    again = are_recreated(half)
    if not again or may_change:
        remaining = state.half_bound.since.setdefault(key, now) + state.carriers.patience(key, gang) - now
        if remaining > 0:
            state.agenda.gang_after(key, remaining)
            return None
    return TakeBack(half, f"{len(half)} pods of the gang were bound, and {why}", again)
