"""Decide about half-bound gangs: a pod whose binding was refused gets another node, or the bound pods are deleted.

Bound pods that a controller recreates are deleted as soon as the rest of their gang no longer fits. Other pods would be
lost, so their rest, which is placed before all other gangs, first gets some time to find room.
"""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.core import Pod
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.binding import Refusals, come_again
from muster.controllers.scheduler.state import REST_SECONDS, SchedulerState

# The number of refused bindings of a pod after which its gang starts over.
MOST_REFUSED = 3


class TakeBack(Struct, frozen=True):
    """The bound pods of a gang that are deleted. why: for users. again: whether their controllers recreate them."""

    pods: Sequence[Pod]
    why: str
    again: bool


def close_refused_nodes(state: SchedulerState, ask: GangTurn, refusals: Refusals, now: float) -> bool:
    """Close the nodes whose bindings the server refused to the pods; return whether their gang has to start over.

    now: monotonic.
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
    """Return the bound pods of a half-bound gang whose rest cannot be placed; None if it still gets time, or is whole.

    why: the reason that the rest cannot be placed, for users.
    now: monotonic.
    may_change: missing pods of the gang may still be created.
    """
    gang = state.roster.gangs.get(key)
    half = state.carriers.half_bound(key, gang) if gang is not None else []
    if gang is None or not half:
        state.half_bound.since.pop(key, None)
        return None
    again = come_again(half)
    if not again or may_change:
        remaining = state.half_bound.since.setdefault(key, now) + state.carriers.patience(key, gang) - now
        if remaining > 0:
            state.agenda.gang_after(key, remaining)
            return None
    return TakeBack(half, f"{len(half)} pods of the gang were bound, and {why}", again)
