"""Decide about a gang that does not fit: reserve room for it, choose victims, and compose the reason for users.

The functions change only the `SchedulerState`; `executing` evicts and publishes.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial

from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.pending import Head, Waiter
from muster.controllers.scheduler.state import SchedulerState
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.preemption import GangPreemption, Protected
from muster.runtime.objects import key_of, split_key

# The seconds that elastic gangs get to shrink for another gang before victims are evicted.
PREEMPT_SECONDS = 1.0


def add_waiter(state: SchedulerState, ask: GangTurn) -> None:
    """Add a gang to the waiting gangs. A newly broken gang also queues the broken gangs that may preempt it."""
    waiter = state.pending.get(ask.key)
    if ask.turn.repairs and (waiter is None or not waiter.criteria.broken):
        # This broken gang may be a victim for one of them.
        for key in state.pending.broken_before(ask.key, ask.criteria):
            state.agenda.gang(key)
    state.pending.wait(ask.key, Waiter(ask.alike, ask.criteria))


def reserve_room(state: SchedulerState, ask: GangTurn, now: float) -> str:
    """Reserve room for a gang if it comes first among the waiting gangs; return the sentence to publish, or "".

    now: the current time, in seconds since the epoch.
    """
    pending = state.pending
    waiter, placing = Waiter(ask.alike, ask.criteria), partial(ask.place_without, state.roster.capacity)
    before = pending.head
    never = pending.reserve_for(ask.key, waiter, placing, now)
    if never is not None:
        if before is not None and pending.head is None:
            state.agenda.sweep()  # retries the gangs that the former head prevented from starting
        for_ever = never.is_of_room and not never.shape.unable  # other reasons may still change
        return " It would not fit even if everything that ever ends had ended." if for_ever else ""
    head = pending.head
    if head is None or head.key != ask.key:
        return ""
    if head.reservation.shadow is not None:  # at that time gangs have ended, or run longer than expected
        state.agenda.sweep(max(head.reservation.shadow - now, 1.0))
    expected = describe_expected_start(head, now)
    return f" It goes first{expected}." if expected else ""


def find_victims(
    state: SchedulerState, ask: GangTurn, now: float, *, resizes: bool
) -> tuple[GangPreemption | None, str]:
    """Find running pods to evict for a gang, and nominate their room to it.

    Return the plan, or None without victims to evict now, and the sentence to publish.

    resizes: whether the cluster has elastic gangs, which get a moment to shrink before pods are evicted.
    """
    pending, victims, agenda = state.pending, state.victims, state.agenda
    if resizes and pending.get(ask.key) is None:
        agenda.gang_after(ask.key, PREEMPT_SECONDS, ask.gang.priority)
        return None, ""
    broken = pending.broken_after(ask.key, ask.criteria) if ask.turn.repairs else ()
    if not broken and (words := pending.get_failed_search(ask.alike, ask.criteria)) is not None:
        return None, words
    roster = state.roster
    leaving = Holdings.of(roster.capacity, [tuple(roster.list_leaving_pods(now))]).freed()
    nominated = pending.sum_nominated_room(ask.key, ask.criteria)
    extra_use = leaving if nominated is None else leaving + nominated
    plan = victims.decide(ask, state.list_budgets(), extra_use, now, broken)
    if isinstance(plan, GangPreemption):
        pending.nominate(ask.key, ask.criteria, plan.placement)
        agenda.later(victims.gone_by(plan, now) - now)  # pods that still exist then no longer count as being deleted
        # The next gang of the class may find victims, too.
        if (alike := pending.next_alike(ask.alike)) is not None:
            agenda.gang(alike)
        if not plan.victims:
            state.spare_victims(ask.key)
            return None, " It starts once the pods that are leaving are gone."
        return plan, _describe_victims(plan, broken)
    if pending.withdraw(ask.key):
        agenda.sweep()
        state.spare_victims(ask.key)
    if (until := victims.protected_until(ask, now)) is not None:
        agenda.later(until - now)
    words = ""
    if isinstance(plan, Protected):
        words = f" Pods of lower priority are protected by PodDisruptionBudget {', '.join(plan.budgets)}."
    pending.record_failed_search(ask.alike, ask.criteria, words)
    return None, words


def mark_victims(state: SchedulerState, ask: GangTurn, plan: GangPreemption) -> int:
    """Add a plan's victims to the pods to evict, and queue the eviction; return the number of victims."""
    state.displaced.spare_victims_of(ask.key)
    name = split_key(ask.key)[0] if ask.carrier is not None else key_of(ask.turn.pods[0])
    for key, uids in plan.victims.items():
        bound = state.roster.gangs[key].bound
        for uid in uids:
            state.displaced.choose(key, bound[uid], ask.key, f"Preempted by {name} on node {bound[uid].spec.node_name}")
    state.agenda.evict()
    return sum(map(len, plan.victims.values()))


def _describe_victims(plan: GangPreemption, broken: Collection[str]) -> str:
    """Return the sentences on how many pods are being evicted for a gang.

    broken: the gangs that run without some of their pods.
    """
    rivals = sum(len(pods) for key, pods in plan.victims.items() if key in broken)
    weaker = sum(map(len, plan.victims.values())) - rivals
    words = f" {rivals} pods of other broken gangs are being evicted for it." if rivals else ""
    return f"{words} {weaker} pods of lower priority are being evicted for it." if weaker else words


def describe_expected_start(head: Head, now: float) -> str:
    """Return the clause `, expected at TIME` about the head's start; "" if the time is unknown or has passed.

    now: the current time, in seconds since the epoch.
    """
    shadow = head.reservation.shadow
    if shadow is None or shadow <= now:
        return ""
    return f", expected at {datetime.fromtimestamp(shadow, UTC):%Y-%m-%dT%H:%M:%SZ}"
